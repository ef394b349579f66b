"""The shoplifting query over a Spark DataFrame. Run it with `python` or with `spark-submit`."""

from pyspark.sql import SparkSession

import kleene

spark = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "UTC").getOrCreate()

readings = spark.createDataFrame(
    [(1, "Shelf", "razor"), (2, "Shelf", "milk"), (3, "Register", "milk"), (4, "Exit", "milk"), (5, "Exit", "razor")],
    "hour long, type string, item string",
)

query = kleene.query("""
    PATTERN SEQ(Shelf a, !(Register b), Exit c)
    WHERE   [item]
    WITHIN  12
    RETURN  a.item AS item, a.hour AS picked, c.hour AS left
""")

query.match(readings, time="hour", type="type").select("item", "picked", "left").show()

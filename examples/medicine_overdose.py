"""An overdose: two doses of one medicine that sum to more than 1000 mg in less than four hours (SASE 2006, section 2.3)."""

import pyarrow as pa

import kleene

query = kleene.query("""
    EVENT  SEQ(MEDICINE-TAKEN x, MEDICINE-TAKEN y)
    WHERE  [name] AND [medicine='Antibiotics'] AND x.amount + y.amount > 1000
    WITHIN 4
    RETURN x.name AS name, x.hour AS first_dose, y.hour AS second_dose, x.amount + y.amount AS total
""")

events = pa.table(
    {
        "hour": [0, 1, 2, 3, 4, 5],
        "type": ["MEDICINE-TAKEN"] * 6,
        "name": ["John", "John", "Mary", "John", "John", "John"],
        "medicine": ["Antibiotics", "Antibiotics", "Antibiotics", "Aspirin", "Antibiotics", "Antibiotics"],
        "amount": [500, 600, 900, 900, 501, 400],
    }
)

for match in query.match(events, time="hour", type="type").to_pylist():
    print("{name}: {total} mg, at hours {first_dose} and {second_dose}".format(**match))

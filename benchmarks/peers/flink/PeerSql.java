// Flink SQL's MATCH_RECOGNIZE in the suite of peers. It reports one match per starting row, so it has only the jobs `next` and
// `contiguity`, whose matches are one per start.

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

public final class PeerSql implements Peer.Engine {
    private static String sql(String job, long window) {
        String[] words = job.split(":");
        String events = "events";
        String body;
        if (words[0].equals("next")) {
            int[] kinds = Events.kinds(words[1]);
            events = String.format("(SELECT * FROM events WHERE kind IN (%d, %d, %d))", kinds[0], kinds[1], kinds[2]);
            body = String.format(
                    "PATTERN (A P* B Q* C) WITHIN INTERVAL '%s' SECOND DEFINE A AS A.kind = %d, P AS P.kind <> %d, B AS B.kind = %d, "
                            + "Q AS Q.kind <> %d, C AS C.kind = %d",
                    seconds(window), kinds[0], kinds[1], kinds[1], kinds[2], kinds[2]);
        } else {
            body = String.format(
                    "PATTERN (A R* C) WITHIN INTERVAL '%s' SECOND DEFINE A AS MOD(A.x, 500) = 0, "
                            + "R AS R.x > COALESCE(LAST(R.x, 1), A.x), C AS C.x <= COALESCE(LAST(R.x), A.x)",
                    seconds(window));
        }
        return "SELECT t1, t3 FROM " + events + " MATCH_RECOGNIZE (PARTITION BY k ORDER BY event_time MEASURES A.ts AS t1, C.ts AS t3 "
                + "ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW " + body + ")";
    }

    private static String seconds(long milliseconds) {
        return milliseconds / 1_000 + "." + String.format("%03d", milliseconds % 1_000);
    }

    private static final class Count extends RichMapFunction<Row, Long> {
        private transient Peer.Found found;

        @Override
        public void open(OpenContext context) {
            found = new Peer.Found();
        }

        @Override
        public Long map(Row row) {
            found.add((Long) row.getField(0), (Long) row.getField(1));
            return (Long) row.getField(1);
        }

        @Override
        public void close() {
            Peer.tally.end(found);
        }
    }

    @Override
    public void run(String job, long window, int parallelism, int limit) throws Exception {
        StreamExecutionEnvironment env = Events.environment(parallelism);
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        Schema schema = Schema.newBuilder()
                .column("ts", DataTypes.BIGINT().notNull())
                .column("kind", DataTypes.INT().notNull())
                .column("key", DataTypes.INT().notNull())
                .column("x", DataTypes.INT().notNull())
                .column("y", DataTypes.INT().notNull())
                .columnByExpression("k", "`key`")
                .columnByMetadata("event_time", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
                .watermark("event_time", "SOURCE_WATERMARK()")
                .build();
        tables.createTemporaryView("events", Events.of(env, limit), schema);
        tables.toDataStream(tables.sqlQuery(sql(job, window))).map(new Count()).sinkTo(new DiscardingSink<>());
        env.execute();
    }

    public static void main(String[] arguments) throws Exception {
        Peer.serve(new PeerSql());
    }
}

// Flink's Pattern API under skip till any match: the peer of `kleene bench lazy`, compiled and started by process.py.
// Requests and answers, and what is timed, are described in Jobs.java.

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

public final class AnyPatterns implements Jobs.Program {
    private static final int BYTES = Long.BYTES + Integer.BYTES + Double.BYTES;

    // Shared with the operators, which run in this JVM. The columns are those of the file.
    private static long[] ts;
    private static int[] kind;
    private static double[] x;

    /** An event; a POJO, so that Flink generates its serializer. */
    public static final class Event {
        public long ts;
        public int kind;
        public double x;

        public Event() {}

        Event(long ts, int kind, double x) {
            this.ts = ts;
            this.kind = kind;
            this.x = x;
        }
    }

    /** An event of a kind whose x is above that of the event bound before it. */
    private static final class Above extends IterativeCondition<Event> {
        private final int kind;
        private final String before;

        Above(int kind, String before) {
            this.kind = kind;
            this.before = before;
        }

        @Override
        public boolean filter(Event event, Context<Event> context) throws Exception {
            if (event.kind != kind) {
                return false;
            }
            for (Event earlier : context.getEventsForPattern(before)) {
                return event.x > earlier.x;
            }
            return false;
        }
    }

    /**
     * SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x. followedByAny is skip till any match, and `within` excludes its end as
     * WITHIN does. A larger cache of the shared buffer (pipeline.cep.sharedbuffer.cache) made no difference.
     */
    private static Pattern<Event, ?> rising() {
        return Pattern.<Event>begin("a", AfterMatchSkipStrategy.noSkip()).where(SimpleCondition.of(event -> event.kind == 0))
                .followedByAny("b").where(new Above(1, "a"))
                .followedByAny("c").where(new Above(2, "b"));
    }

    /** Looks at every match: Flink hands it over as a map of lists. */
    private static final class Count extends PatternProcessFunction<Event, Long> {
        private transient long matches;

        @Override
        public void processMatch(Map<String, List<Event>> match, Context context, Collector<Long> out) {
            long a = match.get("a").get(0).ts;
            long b = match.get("b").get(0).ts;
            long c = match.get("c").get(0).ts;
            matches++;
            if (Jobs.tally.isWriting()) {
                Jobs.tally.write(a + " " + b + " " + c);
            }
            out.collect(c - a);
        }

        @Override
        public void close() {
            Jobs.tally.end(matches, 3 * matches);
        }
    }

    private static final class Read implements MapFunction<Long, Event> {
        @Override
        public Event map(Long number) {
            int row = number.intValue();
            if (row == 0) {
                Jobs.tally.start();
            }
            return new Event(ts[row], kind[row], x[row]);
        }
    }

    @Override
    public void load(Path path) throws IOException {
        ByteBuffer bytes = Jobs.columnsOf(path);
        int rows = bytes.capacity() / BYTES;
        ts = Jobs.longs(bytes, rows);
        kind = Jobs.ints(bytes, rows);
        x = Jobs.doubles(bytes, rows);
    }

    @Override
    public void build(StreamExecutionEnvironment env, String pattern, long window, int parallelism) {
        if (!pattern.equals("rising")) {
            throw new IllegalArgumentException("no pattern is called " + pattern);
        }
        DataStream<Event> events = env.fromSequence(0, ts.length - 1).setParallelism(1)
                .map(new Read()).returns(Event.class).setParallelism(1)
                .assignTimestampsAndWatermarks(
                        WatermarkStrategy.<Event>forGenerator(context -> new Jobs.EveryFew<>())
                                .withTimestampAssigner((event, at) -> event.ts))
                .setParallelism(1);
        CEP.pattern(events, rising().within(Duration.ofMillis(window))).process(new Count()).sinkTo(new DiscardingSink<>());
    }

    public static void main(String[] arguments) throws Exception {
        Jobs.serve(new AnyPatterns());
    }
}

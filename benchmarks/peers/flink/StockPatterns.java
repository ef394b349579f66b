// Flink's Pattern API on the stock ticker: the peer of `kleene bench saseplus`, compiled and started by process.py.
// Requests and answers, and what is timed, are described in Jobs.java.

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
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
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

public final class StockPatterns implements Jobs.Program {
    // Shared with the operators, which run in this JVM. The columns are those of the file.
    private static long[] ts;
    private static int[] symbol;
    private static int[] price;
    private static int[] volume;

    /** An event; a POJO, so that Flink generates its serializer. */
    public static final class Stock {
        public long ts;
        public int key;
        public int price;
        public int volume;

        public Stock() {}

        Stock(long ts, int key, int price, int volume) {
            this.ts = ts;
            this.key = key;
            this.price = price;
            this.volume = volume;
        }
    }

    /** The last element of a so far, or null; Flink has no other way than to read them all. */
    private static Stock lastOf(IterativeCondition.Context<Stock> context) throws Exception {
        Stock last = null;
        for (Stock element : context.getEventsForPattern("a")) {
            last = element;
        }
        return last;
    }

    /** a[1].price % 500 = 0, and then a[i].price > a[i-1].price. */
    private static final class Rising extends IterativeCondition<Stock> {
        @Override
        public boolean filter(Stock event, Context<Stock> context) throws Exception {
            Stock last = lastOf(context);
            return last == null ? event.price % 500 == 0 : event.price > last.price;
        }
    }

    /** b.price > a[a.LEN].price. */
    private static final class AboveTheLast extends IterativeCondition<Stock> {
        @Override
        public boolean filter(Stock event, Context<Stock> context) throws Exception {
            Stock last = lastOf(context);
            return last != null && event.price > last.price;
        }
    }

    /**
     * The patterns. A match of Kleene's skip_till_next_match is, for every b in the window, what was selected before it; one of
     * Flink's relaxed contiguity is, for every prefix of what is selected, the first b after it. So `direct`, the p2s3 of the
     * paper written down word by word, finds other matches. `every` finds those of p2s3: it selects all events between the first
     * and b, and the rising ones are picked out of each match. In `rises`, b is the next event above the last a, where the two
     * meanings coincide. `contiguity` is p2s2, with the same meaning in both.
     */
    private static Pattern<Stock, ?> patternOf(String name) {
        SimpleCondition<Stock> starts = SimpleCondition.of(event -> event.price % 500 == 0);
        SimpleCondition<Stock> closes = SimpleCondition.of(event -> event.volume < 150);
        switch (name) {
            case "contiguity":
                return Pattern.<Stock>begin("a", AfterMatchSkipStrategy.noSkip())
                        .where(new Rising()).oneOrMore().consecutive()
                        .next("b").where(closes);
            case "direct":
                return Pattern.<Stock>begin("a", AfterMatchSkipStrategy.noSkip())
                        .where(new Rising()).oneOrMore()
                        .followedBy("b").where(closes);
            case "rises":
                return Pattern.<Stock>begin("a", AfterMatchSkipStrategy.noSkip())
                        .where(new Rising()).oneOrMore()
                        .followedBy("b").where(new AboveTheLast());
            case "every":
                return Pattern.<Stock>begin("a", AfterMatchSkipStrategy.noSkip()).where(starts)
                        .next("more").oneOrMore().optional().consecutive()
                        .next("b").where(closes);
            default:
                throw new IllegalArgumentException("no pattern is called " + name);
        }
    }

    /** Looks at every match: Flink hands it over as a map of lists. */
    private static final class Count extends PatternProcessFunction<Stock, Long> {
        private transient long matches;
        private transient long length;

        @Override
        public void processMatch(Map<String, List<Stock>> match, Context context, Collector<Long> out) {
            List<Stock> a = match.get("a");
            if (match.containsKey("more")) {
                a = rising(a.get(0), match.get("more"));
            }
            matches++;
            length += a.size() + 1;
            if (Jobs.tally.isWriting()) {
                Jobs.tally.write(times(a, match.get("b").get(0)));
            }
            out.collect((long) a.size());
        }

        private static String times(List<Stock> a, Stock b) {
            StringBuilder line = new StringBuilder();
            for (Stock element : a) {
                line.append(element.ts).append(' ');
            }
            return line.append(b.ts).toString();
        }

        private static List<Stock> rising(Stock first, List<Stock> more) {
            List<Stock> taken = new ArrayList<>();
            taken.add(first);
            Stock last = first;
            for (Stock event : more) {
                if (event.price > last.price) {
                    taken.add(event);
                    last = event;
                }
            }
            return taken;
        }

        @Override
        public void close() {
            Jobs.tally.end(matches, length);
        }
    }

    private static final class Read implements MapFunction<Long, Stock> {
        private final int[] keys;

        Read(int[] keys) {
            this.keys = keys;
        }

        @Override
        public Stock map(Long number) {
            int row = number.intValue();
            if (row == 0) {
                Jobs.tally.start();
            }
            return new Stock(ts[row], keys[symbol[row]], price[row], volume[row]);
        }
    }

    /** A key per symbol such that the symbols spread evenly over the subtasks; as they are, hashing may send all to one. */
    private static int[] spread(int symbols, int parallelism) {
        int[] keys = new int[symbols + 1];
        int key = 0;
        for (int one = 1; one <= symbols; one++) {
            do {
                key++;
            } while (KeyGroupRangeAssignment.assignKeyToParallelOperator(key, Jobs.MAX_PARALLELISM, parallelism)
                    != one % parallelism);
            keys[one] = key;
        }
        return keys;
    }

    @Override
    public void build(StreamExecutionEnvironment env, String pattern, long window, int parallelism) {
        int symbols = 0;
        for (int one : symbol) {
            symbols = Math.max(symbols, one);
        }
        DataStream<Stock> events = env.fromSequence(0, ts.length - 1).setParallelism(1)
                .map(new Read(spread(symbols, parallelism))).returns(Stock.class).setParallelism(1)
                .assignTimestampsAndWatermarks(
                        WatermarkStrategy.<Stock>forGenerator(context -> new Jobs.EveryFew<>())
                                .withTimestampAssigner((event, at) -> event.ts))
                .setParallelism(1);
        CEP.pattern(events.keyBy(event -> event.key), patternOf(pattern).within(Duration.ofMillis(window)))
                .process(new Count())
                .sinkTo(new DiscardingSink<>());
    }

    @Override
    public void load(Path path) throws IOException {
        ByteBuffer bytes = Jobs.columnsOf(path);
        int rows = bytes.capacity() / (Long.BYTES + 3 * Integer.BYTES);
        ts = Jobs.longs(bytes, rows);
        symbol = Jobs.ints(bytes, rows);
        price = Jobs.ints(bytes, rows);
        volume = Jobs.ints(bytes, rows);
    }

    public static void main(String[] arguments) throws Exception {
        Jobs.serve(new StockPatterns());
    }
}

// Flink's Pattern API on the stock ticker: the peer of `python -m benchmarks saseplus`, compiled and started by process.py.
//
// Lines `pattern window parallelism events [matches]` on standard input, with tabs between, are answered by one line
// `key=value ...` each. If a file for the matches is given, the job writes them there (times of a, then that of b), and its timing
// means nothing. One JVM serves all jobs, so that the compiler is warm.
//
// Timed is the span from the first event that leaves the source until the CEP operators have closed, wall and CPU of the process:
// without the start of the JVM and of the cluster, and without reading the file of events.

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

public final class StockPatterns {
    private static final int MAX_PARALLELISM = 128;
    private static final int EVENTS_PER_WATERMARK = 64;

    // Jobs run in this JVM, one at a time, so what they share is static. The columns are those of the file.
    private static long[] ts;
    private static int[] symbol;
    private static int[] price;
    private static int[] volume;
    private static Tally tally;

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

    /** What a job found and when. */
    private static final class Tally {
        private final OperatingSystemMXBean process =
                (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        private final PrintStream written;
        private long startedWall;
        private long startedCpu;
        private long endedWall;
        private long endedCpu;
        private long matches;
        private long length;

        Tally(PrintStream written) {
            this.written = written;
        }

        void start() {
            startedWall = System.nanoTime();
            startedCpu = process.getProcessCpuTime();
        }

        synchronized void end(long matches, long length) {
            this.matches += matches;
            this.length += length;
            endedWall = System.nanoTime();
            endedCpu = process.getProcessCpuTime();
        }

        synchronized void write(List<Stock> a, Stock b) {
            StringBuilder line = new StringBuilder();
            for (Stock element : a) {
                line.append(element.ts).append(' ');
            }
            written.println(line.append(b.ts));
        }

        String answer() {
            return String.format(
                    "matches=%d length=%d wall=%.6f cpu=%.6f",
                    matches, length, (endedWall - startedWall) / 1e9, (endedCpu - startedCpu) / 1e9);
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
            if (tally.written != null) {
                tally.write(a, match.get("b").get(0));
            }
            out.collect((long) a.size());
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
            tally.end(matches, length);
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
                tally.start();
            }
            return new Stock(ts[row], keys[symbol[row]], price[row], volume[row]);
        }
    }

    /**
     * A watermark after every few events, at the time of the last: times are unique and ordered, so none is withheld. With the
     * periodic watermarks of forMonotonousTimestamps the operator holds back what arrives in their interval; jobs were slower
     * then, some of them several times, and their times varied much more. Of 1, 8, 64 and 512 events, 64 was about the best.
     */
    private static final class EveryFew implements WatermarkGenerator<Stock> {
        private int since;

        @Override
        public void onEvent(Stock event, long at, WatermarkOutput output) {
            if (++since == EVENTS_PER_WATERMARK) {
                since = 0;
                output.emitWatermark(new Watermark(at));
            }
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {}
    }

    /** A key per symbol such that the symbols spread evenly over the subtasks; as they are, hashing may send all to one. */
    private static int[] spread(int symbols, int parallelism) {
        int[] keys = new int[symbols + 1];
        int key = 0;
        for (int one = 1; one <= symbols; one++) {
            do {
                key++;
            } while (KeyGroupRangeAssignment.assignKeyToParallelOperator(key, MAX_PARALLELISM, parallelism)
                    != one % parallelism);
            keys[one] = key;
        }
        return keys;
    }

    private static String run(String pattern, long window, int parallelism, PrintStream written) throws Exception {
        tally = new Tally(written);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(parallelism, new Configuration());
        env.getConfig().enableObjectReuse();
        env.setMaxParallelism(MAX_PARALLELISM);
        int symbols = 0;
        for (int one : symbol) {
            symbols = Math.max(symbols, one);
        }
        DataStream<Stock> events = env.fromSequence(0, ts.length - 1).setParallelism(1)
                .map(new Read(spread(symbols, parallelism))).returns(Stock.class).setParallelism(1)
                .assignTimestampsAndWatermarks(
                        WatermarkStrategy.<Stock>forGenerator(context -> new EveryFew())
                                .withTimestampAssigner((event, at) -> event.ts))
                .setParallelism(1);
        CEP.pattern(events.keyBy(event -> event.key), patternOf(pattern).within(Duration.ofMillis(window)))
                .process(new Count())
                .sinkTo(new DiscardingSink<>());
        env.execute();
        return tally.answer();
    }

    private static void load(Path path) throws IOException {
        try (FileChannel channel = FileChannel.open(path)) {
            ByteBuffer bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()).order(ByteOrder.LITTLE_ENDIAN);
            int rows = (int) (channel.size() / (Long.BYTES + 3 * Integer.BYTES));
            ts = new long[rows];
            bytes.asLongBuffer().get(ts);
            bytes.position(rows * Long.BYTES);
            symbol = ints(bytes, rows);
            price = ints(bytes, rows);
            volume = ints(bytes, rows);
        }
    }

    private static int[] ints(ByteBuffer bytes, int rows) {
        int[] column = new int[rows];
        bytes.asIntBuffer().get(column);
        bytes.position(bytes.position() + rows * Integer.BYTES);
        return column;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        String loaded = "";
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split("\t");
            if (!words[3].equals(loaded)) {
                load(Path.of(words[3]));
                loaded = words[3];
            }
            PrintStream written = null;
            if (words.length > 4) {
                written = new PrintStream(new BufferedOutputStream(Files.newOutputStream(Path.of(words[4]))));
            }
            String answer = run(words[0], Long.parseLong(words[1]), Integer.parseInt(words[2]), written);
            if (written != null) {
                written.close();
            }
            System.out.println(answer);
        }
    }
}

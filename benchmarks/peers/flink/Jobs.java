// What the programs share: requests on standard input, the tally of a job, watermarks, columns of a file of events.
//
// Lines `pattern window parallelism events [matches]` on standard input, with tabs between, are answered by one line
// `key=value ...` each. If a file for the matches is given, the job writes them there (the times of their events, one match a
// line), and its timing means nothing. One JVM serves all jobs, so that the compiler is warm.
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
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

final class Jobs {
    static final int MAX_PARALLELISM = 128;
    private static final int EVENTS_PER_WATERMARK = 64;

    /** That of the job at hand: jobs run in this JVM, one at a time. */
    static Tally tally;

    private Jobs() {}

    /** What a program has of its own. */
    interface Program {
        /** Reads the columns of a file of events. */
        void load(Path events) throws IOException;

        /** Adds the sources and operators of a job. */
        void build(StreamExecutionEnvironment env, String pattern, long window, int parallelism);
    }

    /** What a job found and when. */
    static final class Tally {
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

        boolean isWriting() {
            return written != null;
        }

        synchronized void write(String match) {
            written.println(match);
        }

        String answer() {
            return String.format(
                    "matches=%d length=%d wall=%.6f cpu=%.6f",
                    matches, length, (endedWall - startedWall) / 1e9, (endedCpu - startedCpu) / 1e9);
        }
    }

    /**
     * A watermark after every few events, at the time of the last: times are unique and ordered, so none is withheld. With the
     * periodic watermarks of forMonotonousTimestamps the operator holds back what arrives in their interval; jobs were slower
     * then, some of them several times, and their times varied much more. Of 1, 8, 64 and 512 events, 64 was about the best.
     */
    static final class EveryFew<T> implements WatermarkGenerator<T> {
        private final long behind;
        private int since;

        EveryFew() {
            this(0);
        }

        /** So far behind the last event: 1 where times tie. */
        EveryFew(long behind) {
            this.behind = behind;
        }

        @Override
        public void onEvent(T event, long at, WatermarkOutput output) {
            if (++since == EVENTS_PER_WATERMARK) {
                since = 0;
                output.emitWatermark(new Watermark(at - behind));
            }
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {}
    }

    /** A file of events: columns one after the other, of which the first are times. */
    static ByteBuffer columnsOf(Path path) throws IOException {
        try (FileChannel channel = FileChannel.open(path)) {
            return channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()).order(ByteOrder.LITTLE_ENDIAN);
        }
    }

    static long[] longs(ByteBuffer bytes, int rows) {
        long[] column = new long[rows];
        bytes.asLongBuffer().get(column);
        bytes.position(bytes.position() + rows * Long.BYTES);
        return column;
    }

    static int[] ints(ByteBuffer bytes, int rows) {
        int[] column = new int[rows];
        bytes.asIntBuffer().get(column);
        bytes.position(bytes.position() + rows * Integer.BYTES);
        return column;
    }

    static double[] doubles(ByteBuffer bytes, int rows) {
        double[] column = new double[rows];
        bytes.asDoubleBuffer().get(column);
        bytes.position(bytes.position() + rows * Double.BYTES);
        return column;
    }

    private static String run(Program program, String[] words, PrintStream written) throws Exception {
        int parallelism = Integer.parseInt(words[2]);
        tally = new Tally(written);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(parallelism, new Configuration());
        env.getConfig().enableObjectReuse();
        env.setMaxParallelism(MAX_PARALLELISM);
        program.build(env, words[0], Long.parseLong(words[1]), parallelism);
        env.execute();
        return tally.answer();
    }

    /** Answers requests until there are no more. */
    static void serve(Program program) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        String loaded = "";
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split("\t");
            if (!words[3].equals(loaded)) {
                program.load(Path.of(words[3]));
                loaded = words[3];
            }
            PrintStream written = null;
            if (words.length > 4) {
                written = new PrintStream(new BufferedOutputStream(Files.newOutputStream(Path.of(words[4]))));
            }
            String answer = run(program, words, written);
            if (written != null) {
                written.close();
            }
            System.out.println(answer);
        }
    }
}

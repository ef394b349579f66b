// What the peers of `kleene bench peers` share, whatever engine they run: requests, events, and what a job found and when.
//
// Lines `job window parallelism events limit` on standard input, with tabs between, are answered by one line `key=value ...` each.
// A job reads the first `limit` events of a file, which is kept in memory from one job to the next. One JVM serves all jobs, so
// that the compiler is warm. Timed is the span from the first event to the end of the last operator, wall and CPU of the
// process: without the start of the JVM, the compilation of a query, and reading the file.

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

public final class Peer {
    private static final int BYTES = Long.BYTES + 4 * Integer.BYTES;
    private static final long FACTOR = 1_000_003;

    // The columns of the file, shared with operators, which run in this JVM.
    static long[] ts;
    static int[] kind;
    static int[] key;
    static int[] x;
    static int[] y;

    /** That of the job at hand: jobs run one at a time. */
    static Tally tally;

    private Peer() {}

    /** An engine. */
    interface Engine {
        /** Runs a job over the first events; it calls `Peer.tally`. */
        void run(String job, long window, int parallelism, int limit) throws Exception;
    }

    /** What a job found and when. */
    static final class Tally {
        private final OperatingSystemMXBean process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        private long startedWall;
        private long startedCpu;
        private long endedWall;
        private long endedCpu;
        private long matches;
        private long digest;

        void start() {
            startedWall = System.nanoTime();
            startedCpu = process.getProcessCpuTime();
        }

        /** An operator has found these and ended. */
        synchronized void end(Found found) {
            matches += found.matches;
            digest += found.digest;
            endedWall = System.nanoTime();
            endedCpu = process.getProcessCpuTime();
        }

        String answer() {
            return String.format(
                    "matches=%d digest=%d wall=%.6f cpu=%.6f",
                    matches, digest, (endedWall - startedWall) / 1e9, (endedCpu - startedCpu) / 1e9);
        }
    }

    /** Matches of one operator: how many, and a sum that tells their first and last events. */
    static final class Found {
        private long matches;
        private long digest;

        void add(long first, long last) {
            matches++;
            digest += FACTOR * first + last + first * last;
        }
    }

    private static void load(Path path) throws IOException {
        try (FileChannel channel = FileChannel.open(path)) {
            ByteBuffer bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()).order(ByteOrder.LITTLE_ENDIAN);
            int rows = bytes.capacity() / BYTES;
            ts = new long[rows];
            bytes.asLongBuffer().get(ts);
            bytes.position(rows * Long.BYTES);
            int[][] columns = new int[4][rows];
            for (int[] column : columns) {
                bytes.asIntBuffer().get(column);
                bytes.position(bytes.position() + rows * Integer.BYTES);
            }
            kind = columns[0];
            key = columns[1];
            x = columns[2];
            y = columns[3];
        }
    }

    /** Answers requests until there are no more. */
    static void serve(Engine engine) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what an engine prints is no answer
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        String loaded = "";
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split("\t");
            if (!words[3].equals(loaded)) {
                load(Path.of(words[3]));
                loaded = words[3];
            }
            tally = new Tally();
            engine.run(words[0], Long.parseLong(words[1]), Integer.parseInt(words[2]), Integer.parseInt(words[4]));
            answers.println(tally.answer());
            answers.flush();
        }
    }
}

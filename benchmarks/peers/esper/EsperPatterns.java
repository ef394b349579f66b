// Esper in the suite of peers: event patterns, and match_recognize for contiguity. Time is that of the events.

import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;

public final class EsperPatterns implements Peer.Engine {
    private int jobs;

    /** An event. */
    public static final class Ev {
        private final int row;

        Ev(int row) {
            this.row = row;
        }

        public long getTs() {
            return Peer.ts[row];
        }

        public int getKind() {
            return Peer.kind[row];
        }

        public int getKey() {
            return Peer.key[row];
        }

        public int getX() {
            return Peer.x[row];
        }

        public int getY() {
            return Peer.y[row];
        }
    }

    private static String epl(String name, String pattern, long window) {
        String[] kinds = pattern.split("-");
        String first = "every a=Ev(kind=" + kinds[0] + ")";
        String within = " where timer:within(" + window + " milliseconds)";
        String body;
        switch (name) {
            case "any":
                body = first + " -> ((every b=" + of(kinds[1]) + " -> every c=" + of(kinds[2]) + ")" + within + ")";
                break;
            case "next":
                body = first + " -> ((b=" + of(kinds[1]) + " -> c=" + of(kinds[2]) + ")" + within + ")";
                break;
            case "rising":
                body = first + " -> ((every b=Ev(kind=" + kinds[1] + ", x > a.x) -> every c=Ev(kind=" + kinds[2] + ", x > b.x))"
                        + within + ")";
                break;
            case "negation":
                body = first + " -> (((every c=" + of(kinds[2]) + ") and not " + of(kinds[1]) + ")" + within + ")";
                break;
            case "contiguity":
                return "@name('out') select * from Ev match_recognize (partition by key measures A.ts as t1, C.ts as t3 "
                        + "after match skip to next row pattern (A R* C) define A as A.x % 500 = 0, R as R.x > prev(R.x, 1), "
                        + "C as C.x <= prev(C.x, 1) and C.ts < A.ts + " + window + ")";
            default:
                throw new IllegalArgumentException("no pattern is called " + name);
        }
        return "select a.ts as t1, c.ts as t3 from pattern [" + body + "]";
    }

    private static String of(String kind) {
        return "Ev(kind=" + kind + ", key=a.key)";
    }

    @Override
    public void run(String job, long window, int parallelism, int limit) throws Exception {
        String[] words = job.split(":");
        Configuration configuration = new Configuration();
        configuration.getCommon().addEventType("Ev", Ev.class);
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        EPRuntime runtime = EPRuntimeProvider.getRuntime("job" + jobs++, configuration);
        Peer.Found found = new Peer.Found();
        try {
            runtime.getEventService().advanceTime(0);
            for (String pattern : words[1].split(",")) {
                EPCompiled compiled =
                        EPCompilerProvider.getCompiler().compile(epl(words[0], pattern, window), new CompilerArguments(configuration));
                for (EPStatement statement : runtime.getDeploymentService().deploy(compiled).getStatements()) {
                    statement.addListener((matches, old, one, of) -> {
                        for (EventBean match : matches) {
                            found.add((Long) match.get("t1"), (Long) match.get("t3"));
                        }
                    });
                }
            }
            EPEventService events = runtime.getEventService();
            Peer.tally.start();
            for (int row = 0; row < limit; row++) {
                events.advanceTime(Peer.ts[row]);
                events.sendEventBean(new Ev(row), "Ev");
            }
            Peer.tally.end(found);
        } finally {
            runtime.destroy();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Peer.serve(new EsperPatterns());
    }
}

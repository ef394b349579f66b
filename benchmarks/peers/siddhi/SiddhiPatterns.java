// Siddhi in the suite of peers: its patterns take the next event that fits, its sequences the next event.

import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;

public final class SiddhiPatterns implements Peer.Engine {
    private static String app(String name, String pattern, long window) {
        String[] kinds = pattern.split("-");
        String body;
        if (name.equals("next")) {
            body = String.format(
                    "from every a=Ev[kind == %s] -> b=Ev[kind == %s] -> c=Ev[kind == %s] within %d milliseconds",
                    kinds[0], kinds[1], kinds[2], window - 1);
        } else if (name.equals("contiguity")) {
            body = String.format(
                    "from every a=Ev[x %% 500 == 0], "
                            + "r=Ev[(r[last].x is null and x > a.x) or (not (r[last].x is null) and x > r[last].x)]*, "
                            + "c=Ev[(r[last].x is null and x <= a.x) or (not (r[last].x is null) and x <= r[last].x)] "
                            + "within %d milliseconds",
                    window - 1);
        } else {
            throw new IllegalArgumentException("no pattern is called " + name);
        }
        return "@app:playback define stream Ev (ts long, kind int, key int, x int); partition with (key of Ev) begin "
                + body + " select a.ts as t1, c.ts as t3 insert into Out; end;";
    }

    @Override
    public void run(String job, long window, int parallelism, int limit) throws Exception {
        String[] words = job.split(":");
        SiddhiManager manager = new SiddhiManager();
        Peer.Found found = new Peer.Found();
        try {
            SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime(app(words[0], words[1], window));
            runtime.addCallback("Out", new StreamCallback() {
                @Override
                public void receive(Event[] matches) {
                    for (Event match : matches) {
                        found.add((Long) match.getData(0), (Long) match.getData(1));
                    }
                }
            });
            InputHandler input = runtime.getInputHandler("Ev");
            runtime.start();
            Peer.tally.start();
            for (int row = 0; row < limit; row++) {
                input.send(Peer.ts[row], new Object[] {Peer.ts[row], Peer.kind[row], Peer.key[row], Peer.x[row]});
            }
            Peer.tally.end(found);
            runtime.shutdown();
        } finally {
            manager.shutdown();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Peer.serve(new SiddhiPatterns());
    }
}

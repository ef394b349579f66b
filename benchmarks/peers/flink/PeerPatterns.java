// Flink's Pattern API in the suite of peers. A job is `name:patterns[:prefilter]`, patterns are kinds such as `0-1-2,3-4-5`.

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
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

public final class PeerPatterns implements Peer.Engine {
    private static SimpleCondition<Events.Event> isOf(int kind) {
        return SimpleCondition.of(event -> event.kind == kind);
    }

    private static Pattern<Events.Event, Events.Event> begin(String name) {
        return Pattern.begin(name, AfterMatchSkipStrategy.noSkip());
    }

    /** A kind whose x is above that of the event bound before it. */
    private static final class Above extends IterativeCondition<Events.Event> {
        private final int kind;
        private final String before;

        Above(int kind, String before) {
            this.kind = kind;
            this.before = before;
        }

        @Override
        public boolean filter(Events.Event event, Context<Events.Event> context) throws Exception {
            if (event.kind != kind) {
                return false;
            }
            for (Events.Event earlier : context.getEventsForPattern(before)) {
                return event.x > earlier.x;
            }
            return false;
        }
    }

    /** The last element of the list so far, or null; Flink has no other way than to read them all. */
    private static Events.Event lastOf(IterativeCondition.Context<Events.Event> context) throws Exception {
        Events.Event last = null;
        for (Events.Event element : context.getEventsForPattern("first")) {
            last = element;
        }
        return last;
    }

    /** Starts at x % 500 = 0, and then rises. */
    private static final class Rising extends IterativeCondition<Events.Event> {
        @Override
        public boolean filter(Events.Event event, Context<Events.Event> context) throws Exception {
            Events.Event last = lastOf(context);
            return last == null ? event.x % 500 == 0 : event.x > last.x;
        }
    }

    /** The first that does not rise. */
    private static final class Falling extends IterativeCondition<Events.Event> {
        @Override
        public boolean filter(Events.Event event, Context<Events.Event> context) throws Exception {
            Events.Event last = lastOf(context);
            return last != null && event.x <= last.x;
        }
    }

    /** Relaxed contiguity, or any combination. */
    private static Pattern<Events.Event, ?> sequence(int[] kinds, boolean any) {
        Pattern<Events.Event, Events.Event> found = begin("first").where(isOf(kinds[0]));
        for (int place = 1; place < kinds.length; place++) {
            String name = place == kinds.length - 1 ? "last" : "middle" + place;
            found = (any ? found.followedByAny(name) : found.followedBy(name)).where(isOf(kinds[place]));
        }
        return found;
    }

    /**
     * `every` is Kleene's skip_till_next_match with a rising list and any b of low y: it selects all events up to b, and the rising
     * ones are picked out of each match; Flink's own relaxed contiguity means something else (see StockPatterns.java).
     */
    private static Pattern<Events.Event, ?> patternOf(String name, int[] kinds) {
        switch (name) {
            case "any":
                return sequence(kinds, true);
            case "next":
                return sequence(kinds, false);
            case "rising":
                return begin("first").where(isOf(kinds[0]))
                        .followedByAny("middle").where(new Above(kinds[1], "first"))
                        .followedByAny("last").where(new Above(kinds[2], "middle"));
            case "negation":
                return begin("first").where(isOf(kinds[0]))
                        .notFollowedBy("none").where(isOf(kinds[1]))
                        .followedByAny("last").where(isOf(kinds[2]));
            case "lists":
                return begin("first").where(isOf(kinds[0]))
                        .followedByAny("list").where(isOf(kinds[1])).oneOrMore().allowCombinations()
                        .followedByAny("last").where(isOf(kinds[2]));
            case "contiguity":
                return begin("first").where(new Rising()).oneOrMore().consecutive()
                        .next("last").where(new Falling());
            case "every":
                return begin("first").where(SimpleCondition.of(event -> event.x % 500 == 0))
                        .next("more").oneOrMore().optional().consecutive()
                        .next("last").where(SimpleCondition.of(event -> event.y < 150));
            default:
                throw new IllegalArgumentException("no pattern is called " + name);
        }
    }

    /** Looks at every match: Flink hands it over as a map of lists. */
    private static final class Count extends PatternProcessFunction<Events.Event, Long> {
        private transient Peer.Found found;

        @Override
        public void open(org.apache.flink.api.common.functions.OpenContext context) {
            found = new Peer.Found();
        }

        @Override
        public void processMatch(Map<String, List<Events.Event>> match, Context context, Collector<Long> out) {
            Events.Event first = match.get("first").get(0);
            List<Events.Event> more = match.get("more");
            long length = more == null ? 0 : rising(first.x, more);
            found.add(first.ts, match.get("last").get(0).ts);
            out.collect(length);
        }

        private static long rising(int begin, List<Events.Event> more) {
            int last = begin;
            long taken = 1;
            for (Events.Event event : more) {
                if (event.x > last) {
                    last = event.x;
                    taken++;
                }
            }
            return taken;
        }

        @Override
        public void close() {
            Peer.tally.end(found);
        }
    }

    @Override
    public void run(String job, long window, int parallelism, int limit) throws Exception {
        String[] words = job.split(":");
        StreamExecutionEnvironment env = Events.environment(parallelism);
        DataStream<Events.Event> events = Events.of(env, limit);
        String[] patterns = words[1].split(",");
        if (words.length > 2) {
            Set<Integer> wanted = new HashSet<>();
            for (String pattern : patterns) {
                wanted.addAll(Events.set(Events.kinds(pattern)));
            }
            events = events.filter(event -> wanted.contains(event.kind)).setParallelism(1);
        }
        DataStream<Events.Event> divided = words[0].equals("rising") ? events : events.keyBy(event -> event.key);
        for (String pattern : patterns) {
            CEP.pattern(divided, patternOf(words[0], Events.kinds(pattern)).within(Duration.ofMillis(window)))
                    .process(new Count())
                    .sinkTo(new DiscardingSink<>());
        }
        env.execute();
    }

    public static void main(String[] arguments) throws Exception {
        Peer.serve(new PeerPatterns());
    }
}

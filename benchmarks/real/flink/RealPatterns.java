// Flink's Pattern API in the suite of real data. A job is `keyed|all:ordered|timed:steps`, a step is
// `mode/kind/origin/over/under/more` as questions.py writes it, with `-` for what is not asked. Of an event, `kind` is 4 * type + origin, `x` its delay, `y` its id.

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

public final class RealPatterns implements Peer.Engine {
    private static final List<String> KINDS = List.of("D", "A", "C");
    private static final List<String> ORIGINS = List.of("EWR", "JFK", "LGA");

    /** What an event of a step is. */
    private static final class Fits extends IterativeCondition<Events.Event> {
        private final int kind;
        private final int origin;
        private final double over;
        private final double under;
        private final double more;
        private final String compared;
        private final String before;

        /** Compared with an event of one step, and later than that of another; null where there is none. */
        Fits(String[] words, String compared, String before) {
            kind = KINDS.indexOf(words[1]);
            origin = ORIGINS.indexOf(words[2]);
            over = number(words[3], Double.NEGATIVE_INFINITY);
            under = number(words[4], Double.POSITIVE_INFINITY);
            more = number(words[5], 0);
            this.compared = words[5].equals("-") ? null : compared;
            this.before = before;
        }

        private static double number(String word, double otherwise) {
            return word.equals("-") ? otherwise : Double.parseDouble(word);
        }

        private static Events.Event of(Context<Events.Event> context, String name) throws Exception {
            return context.getEventsForPattern(name).iterator().next();
        }

        @Override
        public boolean filter(Events.Event event, Context<Events.Event> context) throws Exception {
            return event.kind >> 2 == kind
                    && (origin < 0 || (event.kind & 3) == origin)
                    && event.x > over
                    && event.x < under
                    && (before == null || event.ts > of(context, before).ts)
                    && (compared == null || event.x > of(context, compared).x + more);
        }
    }

    private static Pattern<Events.Event, ?> patternOf(String steps, boolean ordered) {
        Pattern<Events.Event, Events.Event> found = null;
        Map<String, String> last = new HashMap<>();
        String before = null;
        int place = 0;
        for (String step : steps.split(",")) {
            String[] words = step.split("/");
            String name = "step" + place++;
            Fits fits = new Fits(words, last.get(words[1]), ordered ? null : before);
            if (found == null) {
                found = Pattern.<Events.Event>begin(name, AfterMatchSkipStrategy.noSkip()).where(fits);
            } else if (words[0].equals("not")) {
                found = found.notFollowedBy(name).where(fits);
                continue;
            } else if (words[0].equals("strict")) {
                found = found.next(name).where(fits);
            } else {
                found = (words[0].equals("next") ? found.followedBy(name) : found.followedByAny(name)).where(fits);
            }
            before = name;
            last.put(words[1], name);
        }
        return found;
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
            int first = match.get("step0").get(0).y;
            int last = first;
            for (List<Events.Event> events : match.values()) {
                last = Math.max(last, events.get(0).y);
            }
            found.add(first, last);
            out.collect((long) last);
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
        DataStream<Events.Event> events = Events.of(env, limit, 1);
        DataStream<Events.Event> divided = words[0].equals("keyed") ? events.keyBy(event -> event.key) : events;
        CEP.pattern(divided, patternOf(words[2], words[1].equals("ordered")).within(Duration.ofMillis(window)))
                .process(new Count())
                .sinkTo(new DiscardingSink<>());
        env.execute();
    }

    public static void main(String[] arguments) throws Exception {
        Peer.serve(new RealPatterns());
    }
}

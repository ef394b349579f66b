// The events as a stream of Flink's, for the Pattern API and for SQL alike.

import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

final class Events {
    private Events() {}

    /** An event; a POJO, so that Flink generates its serializer. */
    public static final class Event {
        public long ts;
        public int kind;
        public int key;
        public int x;
        public int y;

        public Event() {}

        Event(int row) {
            ts = Peer.ts[row];
            kind = Peer.kind[row];
            key = Peer.key[row];
            x = Peer.x[row];
            y = Peer.y[row];
        }
    }

    private static final class Read implements MapFunction<Long, Event> {
        @Override
        public Event map(Long number) {
            if (number == 0) {
                Peer.tally.start();
            }
            return new Event(number.intValue());
        }
    }

    /** Objects are reused, and nothing is checkpointed. */
    static StreamExecutionEnvironment environment(int parallelism) {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(parallelism, new Configuration());
        env.getConfig().enableObjectReuse();
        env.setMaxParallelism(Jobs.MAX_PARALLELISM);
        return env;
    }

    /** The first events, in the order of time. */
    static DataStream<Event> of(StreamExecutionEnvironment env, int limit) {
        return of(env, limit, 0);
    }

    /** The same with watermarks so far behind: 1 where times tie. */
    static DataStream<Event> of(StreamExecutionEnvironment env, int limit, long behind) {
        return env.fromSequence(0, limit - 1).setParallelism(1)
                .map(new Read()).returns(Event.class).setParallelism(1)
                .assignTimestampsAndWatermarks(
                        WatermarkStrategy.<Event>forGenerator(context -> new Jobs.EveryFew<>(behind))
                                .withTimestampAssigner((event, at) -> event.ts))
                .setParallelism(1);
    }

    /** The kinds of a pattern, `0-1-2`. */
    static int[] kinds(String pattern) {
        return Stream.of(pattern.split("-")).mapToInt(Integer::parseInt).toArray();
    }

    static Set<Integer> set(int[] kinds) {
        return IntStream.of(kinds).boxed().collect(Collectors.toSet());
    }
}

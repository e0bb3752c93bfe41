import java.util.List;
import java.util.Map;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;
import org.redisson.config.EqualJitterDelay;
import org.redisson.config.ShardedSubscriptionMode;
import java.time.Duration;

/** Makes a client of Redisson's from the settings: its defaults, but for what a test has to make short. */
final class Client {
    private Client() {}

    static RedissonClient open(Map<String, Object> settings) {
        Config config = new Config();
        config.setThreads(4);
        config.setNettyThreads(2);
        number(settings, "watchdogMs", config::setLockWatchdogTimeout);
        number(settings, "fairWaitMs", config::setFairLockWaitTimeout);
        if (settings.get("nodes") instanceof List<?> nodes && !nodes.isEmpty()) {
            var cluster = config.useClusterServers();
            for (Object node : nodes) {
                cluster.addNodeAddress("redis://" + node);
            }
            if (settings.get("sharded") instanceof String mode && !mode.isEmpty()) {
                cluster.setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(mode));
            }
            cluster.setMasterConnectionPoolSize(8).setMasterConnectionMinimumIdleSize(1);
            cluster.setSlaveConnectionPoolSize(8).setSlaveConnectionMinimumIdleSize(1);
            common(cluster, settings);
        } else {
            var single = config.useSingleServer();
            single.setAddress("redis://" + settings.get("address"));
            single.setConnectionPoolSize(32).setConnectionMinimumIdleSize(2);
            common(single, settings);
        }
        return Redisson.create(config);
    }

    private static <T extends BaseConfig<T>> void common(T servers, Map<String, Object> settings) {
        number(settings, "timeoutMs", ms -> servers.setTimeout((int) ms));
        number(settings, "retryDelayMs", ms ->
                servers.setRetryDelay(new EqualJitterDelay(Duration.ofMillis(ms), Duration.ofMillis(2 * ms))));
    }

    private static void number(Map<String, Object> settings, String name, java.util.function.LongConsumer set) {
        if (settings.get(name) instanceof Number n && n.longValue() > 0) {
            set.accept(n.longValue());
        }
    }
}

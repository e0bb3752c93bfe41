import java.io.BufferedReader;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * A process of the fleet, as tests/neighbours describes them: it takes locks, and reports between
 * which instants it believed that it held them. An ordinary user of Redisson believes so from lock()
 * to unlock(), since nothing tells of a loss.
 */
final class Fleet {
    private final RedissonClient redisson;
    private final List<String> locks;
    private final long ttl;
    private final int threads;
    private final long seed;
    private final AtomicLong holds = new AtomicLong();
    private final AtomicBoolean stopped = new AtomicBoolean();

    @SuppressWarnings("unchecked")
    Fleet(RedissonClient redisson, Map<String, Object> settings) {
        this.redisson = redisson;
        locks = (List<String>) settings.get("locks");
        ttl = ((Number) settings.get("ttlMs")).longValue();
        threads = ((Number) settings.get("threads")).intValue();
        seed = ((Number) settings.get("seed")).longValue();
    }

    void run(BufferedReader in) throws Exception {
        say("ready", "");
        if (!"begin".equals(in.readLine())) {
            return;
        }
        Thread[] all = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            Random random = new Random(seed * 31 + i);
            all[i] = new Thread(() -> work(random));
            all[i].start();
        }
        if (!"stop".equals(in.readLine())) {
            return;
        }
        stopped.set(true);
        for (Thread thread : all) {
            thread.join();
        }
        say("done", "");
    }

    private void work(Random random) {
        while (!stopped.get()) {
            String name = locks.get(random.nextInt(locks.size()));
            boolean renewed = random.nextInt(12) == 0;
            long hold = renewed ? ttl * (30 + random.nextInt(120)) / 100 : 1 + random.nextInt(5);
            try {
                once(redisson.getLock(name), name, hold);
                Thread.sleep(random.nextInt(8));
            } catch (Throwable e) {
                say("failed", ",\"lock\":\"" + name + "\",\"text\":\"" + e.getClass().getSimpleName() + "\"");
                java.util.concurrent.locks.LockSupport.parkNanos(20_000_000);
            }
        }
    }

    /** Holds the lock for a time, and says so every few milliseconds. */
    private void once(RLock lock, String name, long ms) throws InterruptedException {
        lock.lock();
        long believed = System.nanoTime();
        long hold = holds.incrementAndGet();
        say("enter", ",\"lock\":\"" + name + "\",\"hold\":" + hold + ",\"holder\":\""
                + redisson.getId() + ":" + Thread.currentThread().getId() + "\",\"at\":" + believed);
        String how = "released";
        try {
            long till = believed + ms * 1_000_000;
            while (System.nanoTime() < till) {
                Thread.sleep(Math.min(5, Math.max(1, (till - System.nanoTime()) / 1_000_000)));
                believed = System.nanoTime();
                say("in", ",\"hold\":" + hold + ",\"at\":" + believed);
            }
        } finally {
            believed = System.nanoTime();
            try {
                lock.unlock();
            } catch (IllegalMonitorStateException e) {
                how = "not held";
            } catch (RuntimeException e) {
                how = "unknown";
            }
            say("exit", ",\"hold\":" + hold + ",\"at\":" + believed + ",\"how\":\"" + how + "\"");
        }
    }

    private static void say(String event, String rest) {
        Main.say("{\"event\":\"" + event + "\"" + rest + "}");
    }
}

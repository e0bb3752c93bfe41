import java.util.concurrent.atomic.LongAdder;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Counts how many pairs of lock and unlock some threads do in a time. */
final class Rate {
    private Rate() {}

    static String pairs(RedissonClient redisson, String name, int count, long ms, boolean own) throws Exception {
        LongAdder pairs = new LongAdder();
        Thread[] threads = new Thread[count];
        long till = System.nanoTime() + ms * 1_000_000;
        for (int i = 0; i < count; i++) {
            RLock lock = redisson.getLock(own ? name + ":" + redisson.getId() + ":" + i : name);
            threads[i] = new Thread(() -> {
                while (System.nanoTime() < till) {
                    lock.lock();
                    boolean within = System.nanoTime() < till;
                    lock.unlock();
                    if (within) {
                        pairs.increment();
                    }
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return String.valueOf(pairs.sum());
    }
}

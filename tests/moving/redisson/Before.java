import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Charges an order under Redisson's lock. Its watchdog renews the lock. */
public final class Before {
    private final RedissonClient redisson;

    public Before(RedissonClient redisson) {
        this.redisson = redisson;
    }

    public void charge(String order, Runnable charge) throws InterruptedException {
        RLock lock = redisson.getLock("order:" + order);
        if (!lock.tryLock(60, TimeUnit.SECONDS)) { // waits in no order
            throw new IllegalStateException("order " + order + " is busy");
        }
        try {
            charge.run(); // hears nothing of a lock that is lost
        } finally {
            lock.unlock(); // throws if it was lost; the work is done by then
        }
    }
}

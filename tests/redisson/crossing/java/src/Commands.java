import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * What a process can be told. KIND is lock, fair, read, write, fenced, spin or multi; the NAME of a
 * multi is names with commas between them. Times are in milliseconds. A LEASE of 0 is none: the
 * watchdog renews.
 */
final class Commands {
    private final RedissonClient redisson;

    Commands(RedissonClient redisson) {
        this.redisson = redisson;
    }

    String run(String[] words) throws Exception {
        return switch (words[0]) {
            case "lock" -> lock(of(words[1], words[2]), number(words[3]));
            case "try" -> tryLock(of(words[1], words[2]), number(words[3]), number(words[4]));
            case "unlock" -> unlock(of(words[1], words[2]));
            case "force" -> String.valueOf(of(words[1], words[2]).forceUnlock());
            case "held" -> String.valueOf(of(words[1], words[2]).isHeldByCurrentThread());
            case "locked" -> String.valueOf(of(words[1], words[2]).isLocked());
            case "count" -> String.valueOf(of(words[1], words[2]).getHoldCount());
            case "token" -> String.valueOf(redisson.getFencedLock(words[1]).lockAndGetToken());
            case "try-token" -> String.valueOf(redisson.getFencedLock(words[1]).tryLockAndGetToken());
            case "permits" -> String.valueOf(redisson.getSemaphore(words[1]).trySetPermits((int) number(words[2])));
            case "acquire" -> acquire(words[1], (int) number(words[2]), number(words[3]));
            case "release" -> release(words[1], (int) number(words[2]));
            case "available" -> String.valueOf(redisson.getSemaphore(words[1]).availablePermits());
            case "cross" ->
                    new Crossing(Path.of(words[4])).run(of(words[1], words[2]), (int) number(words[3]), "read".equals(words[1]));
            case "pairs" ->
                    Rate.pairs(redisson, words[1], (int) number(words[2]), number(words[3]), "own".equals(words[4]));
            default -> throw new IllegalArgumentException("there is no command " + words[0]);
        };
    }

    private static long number(String word) {
        return Long.parseLong(word);
    }

    private RLock of(String kind, String name) {
        return switch (kind) {
            case "lock" -> redisson.getLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            case "fenced" -> redisson.getFencedLock(name);
            case "spin" -> redisson.getSpinLock(name);
            case "multi" -> {
                String[] names = name.split(",");
                RLock[] locks = new RLock[names.length];
                for (int i = 0; i < names.length; i++) {
                    locks[i] = redisson.getLock(names[i]);
                }
                yield redisson.getMultiLock(locks);
            }
            default -> throw new IllegalArgumentException("there is no kind " + kind);
        };
    }

    private static String lock(RLock lock, long lease) {
        if (lease > 0) {
            lock.lock(lease, TimeUnit.MILLISECONDS);
        } else {
            lock.lock();
        }
        return "locked";
    }

    private static String tryLock(RLock lock, long wait, long lease) throws InterruptedException {
        if (wait == 0 && lease == 0) {
            return lock.tryLock() ? "locked" : "busy";
        }
        return lock.tryLock(wait, lease == 0 ? -1 : lease, TimeUnit.MILLISECONDS) ? "locked" : "busy";
    }

    /** Redisson throws if the thread does not hold the lock: then the answer says so. */
    private static String unlock(RLock lock) {
        try {
            lock.unlock();
            return "unlocked";
        } catch (IllegalMonitorStateException e) {
            return "not-held";
        }
    }

    private String acquire(String name, int permits, long wait) throws InterruptedException {
        var semaphore = redisson.getSemaphore(name);
        if (wait < 0) {
            semaphore.acquire(permits);
            return "acquired";
        }
        boolean ok = wait == 0 ? semaphore.tryAcquire(permits)
                : semaphore.tryAcquire(permits, Duration.ofMillis(wait));
        return ok ? "acquired" : "busy";
    }

    private String release(String name, int permits) {
        redisson.getSemaphore(name).release(permits);
        return "released";
    }
}

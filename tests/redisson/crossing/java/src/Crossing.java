import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.ThreadLocalRandom;
import org.redisson.api.RLock;

/**
 * Takes a lock many times, and each time checks in a shared file that nobody else is in. The file has
 * two numbers of eight bytes: the mark of whoever is in, or 0, and how often somebody was in. The
 * second is read when one comes in, and written when one goes out, so that it also shows who was in
 * at the same time. Crossing in exclude.go is its twin.
 */
final class Crossing {
    private final Path file;

    Crossing(Path file) {
        this.file = file;
    }

    /** Answers how often another was in. A reader only looks that no writer is in. */
    String run(RLock lock, int times, boolean reader) throws Exception {
        int met = 0;
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            for (int i = 0; i < times; i++) {
                lock.lock();
                try {
                    met += reader ? look(channel) : pass(channel);
                } finally {
                    lock.unlock();
                }
            }
        }
        return String.valueOf(met);
    }

    private static int look(FileChannel channel) throws Exception {
        long before = at(channel, 0);
        long count = at(channel, 8);
        Thread.yield();
        return before != 0 || at(channel, 0) != 0 || at(channel, 8) != count ? 1 : 0;
    }

    private static int pass(FileChannel channel) throws Exception {
        long mark = ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE);
        long count = at(channel, 8);
        boolean met = at(channel, 0) != 0;
        put(channel, 0, mark);
        Thread.yield();
        met |= at(channel, 0) != mark;
        put(channel, 8, count + 1);
        put(channel, 0, 0);
        return met ? 1 : 0;
    }

    private static long at(FileChannel channel, long offset) throws Exception {
        ByteBuffer bytes = ByteBuffer.allocate(8);
        if (channel.read(bytes, offset) != 8) {
            throw new IllegalStateException("the file is too short");
        }
        return bytes.getLong(0);
    }

    private static void put(FileChannel channel, long offset, long value) throws Exception {
        channel.write(ByteBuffer.allocate(8).putLong(0, value), offset);
    }
}

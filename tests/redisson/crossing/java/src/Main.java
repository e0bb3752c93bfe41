import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.yaml.snakeyaml.Yaml;

/**
 * Redisson, driven line by line. The first line of the standard input is the settings, as JSON. In
 * the mode "drive" each further line is a command:
 *
 * <pre>ID THREAD COMMAND ARGUMENT…</pre>
 *
 * and its answer, as soon as there is one, is {@code ID ok VALUE} or {@code ID error TEXT}. A
 * THREAD is a Java thread of that name, since a thread is what owns a lock of Redisson's. Commands
 * of one thread run one after the other, those of several at the same time. {@link Commands} has the
 * commands. In the mode "fleet" the process works by itself, see {@link Fleet}.
 *
 * <p>When the input ends, the process ends as if it were killed: it gives nothing back.
 */
public final class Main {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private Main() {}

    /** Writes a line at once, so that a kill does not take it. */
    static void say(String line) {
        synchronized (OUT) {
            OUT.print(line + "\n");
            OUT.flush();
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Object> settings = new Yaml().load(in.readLine()); // YAML contains JSON
        RedissonClient redisson = open(settings);
        if ("fleet".equals(settings.get("mode"))) {
            new Fleet(redisson, settings).run(in);
        } else {
            drive(redisson, in);
        }
        Runtime.getRuntime().halt(0);
    }

    /** In a fleet a server may be away, and whoever starts services starts them again. */
    private static RedissonClient open(Map<String, Object> settings) throws InterruptedException {
        while (true) {
            try {
                return Client.open(settings);
            } catch (RedisException e) {
                if (!"fleet".equals(settings.get("mode"))) {
                    throw e;
                }
                Thread.sleep(100);
            }
        }
    }

    private static void drive(RedissonClient redisson, BufferedReader in) throws Exception {
        Commands commands = new Commands(redisson);
        Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
        say("0 ok " + redisson.getId());
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            String[] command = Arrays.copyOfRange(words, 2, words.length);
            ExecutorService thread =
                    threads.computeIfAbsent(words[1], name -> Executors.newSingleThreadExecutor(run -> new Thread(run, name)));
            thread.submit(() -> say(words[0] + " " + answer(commands, command)));
        }
    }

    private static String answer(Commands commands, String[] command) {
        try {
            return "ok " + commands.run(command);
        } catch (Throwable e) {
            return "error " + e.toString().replaceAll("\\s+", " ");
        }
    }
}

import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.function.BooleanSupplier;

/** Runs examples and says how each went, one line for each: ok, failed or skipped. */
final class Examples {
    private Examples() {}

    /** An example. */
    interface Work {
        void run() throws Exception;
    }

    /** The example can't be tried here; says why. */
    static final class Skip extends RuntimeException {
        Skip(String why) {
            super(why);
        }
    }

    /** Runs one, for at most 30 seconds. */
    static void example(String name, Work work) {
        Throwable[] thrown = new Throwable[1];
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable error) {
                thrown[0] = error;
            }
        });
        thread.setDaemon(true);
        thread.start();
        try {
            thread.join(30_000);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
        if (thread.isAlive()) {
            StackTraceElement[] stack = thread.getStackTrace();
            System.out.println("failed " + name + ": line " + line(stack) + ": it took more than 30 s");
        } else if (thrown[0] instanceof Skip) {
            System.out.println("skipped " + name + ": " + thrown[0].getMessage());
        } else if (thrown[0] != null) {
            String said = String.valueOf(thrown[0]).replaceAll("\\s+", " ");
            System.out.println("failed " + name + ": line " + line(thrown[0].getStackTrace()) + ": " + said);
        } else {
            System.out.println("ok " + name);
        }
    }

    private static int line(StackTraceElement[] stack) {
        return Arrays.stream(stack)
            .filter(at -> at.getClassName().contains("Examples") && !"Examples.java".equals(at.getFileName()))
            .mapToInt(StackTraceElement::getLineNumber)
            .findFirst()
            .orElse(0);
    }

    /** Says that no example is left, and ends. */
    static void end() {
        System.out.println("end");
        System.exit(0);
    }

    /** Asserts that this is what the documentation says. */
    static void equal(Object got, Object expected) {
        if (!Objects.deepEquals(got, expected)) {
            throw new AssertionError("expected " + expected + ", got " + got);
        }
    }

    /** Asserts that it holds. */
    static void yes(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError("expected " + what);
        }
    }

    /** Asserts that the call throws, with this text in the message. */
    static void refused(String text, Callable<?> call) {
        Object got;
        try {
            got = call.call();
        } catch (Exception error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (String.valueOf(cause.getMessage()).contains(text)) {
                    return;
                }
            }
            throw new AssertionError("expected an error with " + text + ", got " + error);
        }
        throw new AssertionError("expected an error with " + text + ", got " + got);
    }

    /** Waits until it holds, at most five seconds. */
    static void until(String what, BooleanSupplier holds) throws InterruptedException {
        long end = System.nanoTime() + 5_000_000_000L;
        while (!holds.getAsBoolean()) {
            yes(System.nanoTime() < end, what + " within 5 s");
            Thread.sleep(10);
        }
    }

    /** The server's host and port. */
    static String[] address(String variable) {
        return System.getenv(variable).split(":");
    }

    /** Runs it in so many threads; the first error is thrown. */
    static void threads(int count, Work work) throws Exception {
        Throwable[] thrown = new Throwable[1];
        Thread[] all = new Thread[count];
        for (int n = 0; n < count; n++) {
            all[n] = new Thread(() -> {
                try {
                    work.run();
                } catch (Throwable error) {
                    thrown[0] = error;
                }
            });
            all[n].start();
        }
        for (Thread thread : all) {
            thread.join();
        }
        if (thrown[0] != null) {
            throw new AssertionError(thrown[0].toString(), thrown[0]);
        }
    }
}

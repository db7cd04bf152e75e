package eagleray.compat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;

/**
 * Apache Kafka's own Java clients, driven by a test line by line: one JVM serves a whole run.
 *
 * <p>A line of input is a JSON object whose "do" names the command; a line of output is {"ok": ...} or {"error": the simple
 * name of the exception, "message": ...}. Producers and consumers are known by the names that the test gave them.
 */
public final class Main {
    /** What a command does with its arguments; the result becomes JSON. */
    @FunctionalInterface
    interface Command {
        Object run(JsonNode arguments) throws Exception;
    }

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        // Nothing but answers may come on the standard output.
        PrintStream answers = System.out;
        System.setOut(System.err);
        ObjectMapper json = new ObjectMapper();
        try (Producers producers = new Producers(arguments[0]);
                Consumers consumers = new Consumers(arguments[0]);
                Administration administration = new Administration(arguments[0])) {
            Map<String, Command> commands = new LinkedHashMap<>();
            producers.addTo(commands, consumers);
            consumers.addTo(commands);
            administration.addTo(commands);
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                answers.println(json.writeValueAsString(answer(commands, json.readTree(line))));
                answers.flush();
            }
        }
    }

    private static Map<String, Object> answer(Map<String, Command> commands, JsonNode request) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            answer.put("ok", commands.get(request.get("do").asText()).run(request));
        } catch (ExecutionException error) {
            describe(answer, error.getCause());
        } catch (Exception error) {
            describe(answer, error);
        }
        return answer;
    }

    private static void describe(Map<String, Object> answer, Throwable error) {
        answer.put("error", error.getClass().getSimpleName());
        answer.put("message", String.valueOf(error.getMessage()));
        answer.put("cause", error.getCause() == null ? null : error.getCause().getClass().getSimpleName());
    }
}

package eagleray.compat;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Consumers by name; closing this closes them all. */
final class Consumers implements AutoCloseable {
    private final String bootstrapServers;
    private final Map<String, KafkaConsumer<String, String>> open = new HashMap<>();

    Consumers(String bootstrapServers) {
        this.bootstrapServers = bootstrapServers;
    }

    void addTo(Map<String, Main.Command> commands) {
        commands.put("open_consumer", this::openConsumer);
        commands.put("poll", this::poll);
        commands.put("read_to_end", this::readToEnd);
        commands.put("assignment", arguments -> assignment(named(arguments)));
        commands.put("commit_sync", arguments -> {
            named(arguments).commitSync();
            return null;
        });
        commands.put("close_consumer", arguments -> {
            open.remove(arguments.get("name").asText()).close();
            return null;
        });
    }

    ConsumerGroupMetadata groupMetadata(String name) {
        return open.get(name).groupMetadata();
    }

    private KafkaConsumer<String, String> named(JsonNode arguments) {
        return open.get(arguments.get("name").asText());
    }

    /** Subscribe where there is a group, else take all partitions of the topic from their beginning. */
    private Object openConsumer(JsonNode arguments) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrapServers);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("fetch.max.wait.ms", "50");
        arguments.path("config").properties().forEach(each -> config.put(each.getKey(), each.getValue().asText()));
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        open.put(arguments.get("name").asText(), consumer);
        String topic = arguments.get("topic").asText();
        if (config.containsKey("group.id")) {
            consumer.subscribe(List.of(topic));
        } else {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(each -> partitions.add(new TopicPartition(topic, each.partition())));
            consumer.assign(partitions);
        }
        return null;
    }

    private Object poll(JsonNode arguments) {
        return values(named(arguments), arguments.get("ms").asLong());
    }

    private static List<String> values(KafkaConsumer<String, String> consumer, long milliseconds) {
        List<String> found = new ArrayList<>();
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(milliseconds))) {
            found.add(record.value());
        }
        return found;
    }

    /** Read to the end that this consumer may see, which for a reader of committed records is the last stable offset. */
    private Object readToEnd(JsonNode arguments) {
        KafkaConsumer<String, String> consumer = named(arguments);
        Map<TopicPartition, Long> ends = consumer.endOffsets(consumer.assignment());
        List<String> found = new ArrayList<>();
        long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("not at the end " + ends + " in time; read " + found);
            }
            found.addAll(values(consumer, 100));
        }
        return found;
    }

    private static Object assignment(KafkaConsumer<String, String> consumer) {
        TreeSet<Integer> partitions = new TreeSet<>();
        consumer.assignment().forEach(each -> partitions.add(each.partition()));
        return partitions;
    }

    @Override
    public void close() {
        open.values().forEach(consumer -> consumer.close(CloseOptions.timeout(Duration.ofSeconds(1))));
    }
}

package eagleray.compat;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** Producers by name; closing this closes them all without waiting. */
final class Producers implements AutoCloseable {
    private final String bootstrapServers;
    private final Map<String, KafkaProducer<String, String>> open = new HashMap<>();

    Producers(String bootstrapServers) {
        this.bootstrapServers = bootstrapServers;
    }

    void addTo(Map<String, Main.Command> commands, Consumers consumers) {
        commands.put("open_producer", this::openProducer);
        commands.put("send", this::send);
        commands.put("begin", arguments -> {
            named(arguments).beginTransaction();
            return null;
        });
        commands.put("commit", arguments -> {
            named(arguments).commitTransaction();
            return null;
        });
        commands.put("abort", arguments -> {
            named(arguments).abortTransaction();
            return null;
        });
        commands.put("send_offsets", arguments -> sendOffsets(arguments, consumers));
        commands.put("close_producer", arguments -> {
            open.remove(arguments.get("name").asText()).close(Duration.ZERO);
            return null;
        });
    }

    private KafkaProducer<String, String> named(JsonNode arguments) {
        return open.get(arguments.get("name").asText());
    }

    private Object openProducer(JsonNode arguments) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrapServers);
        config.put("linger.ms", "0");
        arguments.path("config").properties().forEach(each -> config.put(each.getKey(), each.getValue().asText()));
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        open.put(arguments.get("name").asText(), producer);
        if (config.containsKey("transactional.id")) {
            producer.initTransactions();
        }
        return null;
    }

    /** Send the values to a partition, or where the partitioner wants them, and answer the offsets that they got. */
    private Object send(JsonNode arguments) throws Exception {
        Integer partition = arguments.has("partition") ? arguments.get("partition").asInt() : null;
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode value : arguments.get("values")) {
            String topic = arguments.get("topic").asText();
            sent.add(named(arguments).send(new ProducerRecord<>(topic, partition, null, value.asText())));
        }
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> each : sent) {
            offsets.add(each.get().offset());
        }
        return offsets;
    }

    private Object sendOffsets(JsonNode arguments, Consumers consumers) {
        TopicPartition partition =
                new TopicPartition(arguments.get("topic").asText(), arguments.get("partition").asInt());
        OffsetAndMetadata offset = new OffsetAndMetadata(arguments.get("offset").asLong());
        named(arguments)
                .sendOffsetsToTransaction(
                        Map.of(partition, offset), consumers.groupMetadata(arguments.get("consumer").asText()));
        return null;
    }

    @Override
    public void close() {
        open.values().forEach(producer -> producer.close(Duration.ZERO));
    }
}

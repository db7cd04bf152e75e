package eagleray.compat;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Everything that Kafka's Admin is asked. */
final class Administration implements AutoCloseable {
    private final Admin admin;

    Administration(String bootstrapServers) {
        admin = Admin.create(Map.of("bootstrap.servers", bootstrapServers));
    }

    void addTo(Map<String, Main.Command> commands) {
        commands.put("create_topic", this::createTopic);
        commands.put("delete_topic", arguments -> admin.deleteTopics(List.of(topic(arguments))).all().get());
        commands.put("describe_topic", this::describeTopic);
        commands.put("describe_config", this::describeConfig);
        commands.put("alter_config", this::alterConfig);
        commands.put("describe_cluster", arguments -> describeCluster());
        commands.put("finalized_features", arguments -> finalizedFeatures());
        commands.put("list_groups", arguments -> listGroups());
        commands.put("describe_group", this::describeGroup);
        commands.put("list_transactions", arguments -> listTransactions());
        commands.put("describe_transaction", this::describeTransaction);
        commands.put("describe_producers", this::describeProducers);
        commands.put("abort_transaction", this::abortTransaction);
        commands.put("fence_producers", this::fenceProducers);
    }

    private static String topic(JsonNode arguments) {
        return arguments.get("topic").asText();
    }

    private static TopicPartition partition(JsonNode arguments) {
        return new TopicPartition(topic(arguments), arguments.path("partition").asInt(0));
    }

    private Object createTopic(JsonNode arguments) throws Exception {
        NewTopic wanted = new NewTopic(topic(arguments), arguments.get("partitions").asInt(), (short) 1);
        return admin.createTopics(List.of(wanted)).all().get();
    }

    private Object describeTopic(JsonNode arguments) throws Exception {
        TopicDescription found =
                admin.describeTopics(List.of(topic(arguments))).allTopicNames().get().get(topic(arguments));
        return Map.of("name", found.name(), "partitions", found.partitions().size(), "id", found.topicId().toString());
    }

    private static ConfigResource resource(JsonNode arguments) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic(arguments));
    }

    private Object describeConfig(JsonNode arguments) throws Exception {
        ConfigResource resource = resource(arguments);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(arguments.get("key").asText()).value();
    }

    private Object alterConfig(JsonNode arguments) throws Exception {
        ConfigEntry entry = new ConfigEntry(arguments.get("key").asText(), arguments.get("value").asText());
        Collection<AlterConfigOp> operations = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
        return admin.incrementalAlterConfigs(Map.of(resource(arguments), operations)).all().get();
    }

    private Object describeCluster() throws Exception {
        DescribeClusterResult found = admin.describeCluster();
        TreeSet<Integer> nodes = new TreeSet<>();
        for (Node node : found.nodes().get()) {
            nodes.add(node.id());
        }
        return Map.of("id", found.clusterId().get(), "nodes", nodes, "controller", found.controller().get().id());
    }

    private Object finalizedFeatures() throws Exception {
        Map<String, Short> levels = new TreeMap<>();
        admin.describeFeatures()
                .featureMetadata()
                .get()
                .finalizedFeatures()
                .forEach((name, range) -> levels.put(name, range.maxVersionLevel()));
        return levels;
    }

    private Object listGroups() throws Exception {
        Map<String, String> types = new TreeMap<>();
        admin.listGroups(ListGroupsOptions.forConsumerGroups())
                .all()
                .get()
                .forEach(group -> types.put(group.groupId(), group.type().map(Object::toString).orElse("")));
        return types;
    }

    private Object describeGroup(JsonNode arguments) throws Exception {
        String group = arguments.get("group").asText();
        ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        List<Integer> sizes = new ArrayList<>();
        found.members().forEach(member -> sizes.add(member.assignment().topicPartitions().size()));
        return Map.of("state", found.groupState().toString(), "type", found.type().toString(), "assigned", sizes);
    }

    private Object listTransactions() throws Exception {
        Map<String, String> states = new TreeMap<>();
        admin.listTransactions()
                .all()
                .get()
                .forEach(listing -> states.put(listing.transactionalId(), listing.state().toString()));
        return states;
    }

    private Object describeTransaction(JsonNode arguments) throws Exception {
        String id = arguments.get("transactional_id").asText();
        TransactionDescription found = admin.describeTransactions(List.of(id)).all().get().get(id);
        return Map.of(
                "state", found.state().toString(),
                "producer_id", found.producerId(),
                "epoch", found.producerEpoch(),
                "partitions", found.topicPartitions().size());
    }

    private Object describeProducers(JsonNode arguments) throws Exception {
        TopicPartition partition = partition(arguments);
        List<Object> producers = new ArrayList<>();
        for (ProducerState each : admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers()) {
            producers.add(Map.of(
                    "producer_id", each.producerId(),
                    "epoch", each.producerEpoch(),
                    "coordinator_epoch", each.coordinatorEpoch().orElse(-1),
                    "open_from", each.currentTransactionStartOffset().orElse(-1)));
        }
        return producers;
    }

    private Object abortTransaction(JsonNode arguments) throws Exception {
        AbortTransactionSpec which = new AbortTransactionSpec(
                partition(arguments),
                arguments.get("producer_id").asLong(),
                (short) arguments.get("epoch").asInt(),
                arguments.get("coordinator_epoch").asInt());
        return admin.abortTransaction(which).all().get();
    }

    private Object fenceProducers(JsonNode arguments) throws Exception {
        return admin.fenceProducers(List.of(arguments.get("transactional_id").asText())).all().get();
    }

    @Override
    public void close() {
        admin.close(Duration.ZERO);
    }
}

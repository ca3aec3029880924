import com.fasterxml.jackson.databind.*;
import java.time.*;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

public class EchoServer {
    static final String CARD = """
        {"kind":"toolset", "toolset":"jecho", "tools":[{"name":"echo", "description":"Say a phrase again.", "args_schema":
        {"type":"object", "properties":{"phrase":{"type":"string"}}, "required":["phrase"], "additionalProperties":false}}]}""";
    public static void main(String[] args) throws Exception {  // the broker's address, the prefix of topics
        var json = new ObjectMapper();
        var calls = new KafkaConsumer<>(Map.of("bootstrap.servers", args[0], "group.id", args[1] + ".tools.jecho",
            "isolation.level", "read_committed", "auto.offset.reset", "earliest", "enable.auto.commit", "false"), new StringDeserializer(), new StringDeserializer());
        var replies = new KafkaProducer<>(Map.of("bootstrap.servers", args[0], "acks", "all"), new StringSerializer(), new StringSerializer());
        replies.send(new ProducerRecord<>(args[1] + ".toolsets.jecho.v1", "jecho", CARD));
        calls.subscribe(List.of(args[1] + ".tools.jecho.v1"));
        for (;; calls.commitSync()) for (var record : calls.poll(Duration.ofSeconds(1))) try {  // replies first, then offsets: at least once
            var call = json.readTree(record.value());
            if (!call.path("kind").asText().equals("tool_call") || !call.path("toolset").asText().equals("jecho")) continue;
            if (Instant.parse(call.get("expires_at").asText()).isBefore(Instant.now())) continue;
            var reply = call.get("reply"); var phrase = call.get("args").path("phrase");
            var code = !call.get("tool").asText().equals("echo") ? "unknown_tool" : !phrase.isTextual() ? "invalid_args" : null;
            var outcome = code == null ? Map.of("kind", "ok", "value", phrase) : Map.of("kind", "error", "code", code);
            var result = Map.of("kind", "tool_result", "call_id", call.get("call_id"), "workflow_id", call.get("workflow_id"), "token", reply.get("token"), "outcome", outcome);
            replies.send(new ProducerRecord<>(reply.get("topic").asText(), reply.get("partition").asInt(), reply.get("key").asText(), json.writeValueAsString(result))).get();
        } catch (com.fasterxml.jackson.core.JacksonException | DateTimeException | NullPointerException noCall) { System.err.println("passed by: " + noCall); }
    }
}

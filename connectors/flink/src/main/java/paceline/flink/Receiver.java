package paceline.flink;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.Serializable;
import java.net.InetAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.arrow.flight.Action;
import org.apache.arrow.flight.CallOption;
import org.apache.arrow.flight.CallOptions;
import org.apache.arrow.flight.FlightCallHeaders;
import org.apache.arrow.flight.FlightClient;
import org.apache.arrow.flight.FlightDescriptor;
import org.apache.arrow.flight.FlightRuntimeException;
import org.apache.arrow.flight.FlightStatusCode;
import org.apache.arrow.flight.HeaderCallOption;
import org.apache.arrow.flight.Location;
import org.apache.arrow.flight.PutResult;
import org.apache.arrow.flight.Result;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.slf4j.LoggerFactory;

/** A connection to `paceline receive`: the calls of docs/formats/sink.md that a writer needs. */
final class Receiver implements AutoCloseable {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final long PATIENCE_SECONDS = 60; // for a receiver that does not answer
  private static final long CALL_SECONDS = 60;

  /** What a task needs to connect. */
  record Address(String url, String app, String secrets) implements Serializable {
    ObjectNode names() {
      return JSON.createObjectNode()
          .put("stream", URI.create(url).getPath().replace("/", "")).put("app", app);
    }

    /** The body of a commit; `parts` are texts of `Part.finish`. */
    String commitOf(String epoch, List<String> parts) throws IOException {
      ObjectNode body = names().put("epoch", epoch);
      ArrayNode list = body.putArray("parts");
      for (String one : parts) {
        list.add(JSON.readTree(one));
      }
      return json(body);
    }
  }

  final BufferAllocator allocator = new RootAllocator();
  private final Address address;
  private final FlightClient client;
  private final CallOption token;
  private final int plainPort; // 0: TLS

  Receiver(Address address) throws IOException {
    this.address = address;
    URI url = URI.create(address.url());
    if (url.getHost() == null || url.getPort() < 1 || url.getPath().length() < 2) {
      throw new IOException(address.url() + " is no stream of a receiver: it has to be"
          + " grpc://HOST:PORT/STREAM");
    }
    String ca = setting("ca", null);
    boolean isTls = url.getScheme().endsWith("+tls") || ca != null
        || !InetAddress.getByName(url.getHost()).isLoopbackAddress();
    FlightClient.Builder builder = FlightClient.builder().allocator(allocator).location(
        isTls ? Location.forGrpcTls(url.getHost(), url.getPort())
            : Location.forGrpcInsecure(url.getHost(), url.getPort()));
    if (ca != null) {
      builder.trustedCertificates(new ByteArrayInputStream(Files.readAllBytes(Path.of(ca))));
    }
    FlightCallHeaders headers = new FlightCallHeaders();
    headers.insert("authorization", "Bearer " + setting("token", "PACELINE_SINK_TOKEN"));
    this.token = new HeaderCallOption(headers);
    this.plainPort = isTls ? 0 : url.getPort();
    this.client = builder.build();
  }

  static String json(JsonNode node) throws IOException {
    return JSON.writeValueAsString(node);
  }

  ObjectNode names() {
    return address.names();
  }

  /** The answer of a DoAction that may be repeated. A receiver that is away is waited for. */
  JsonNode act(String action, String body) throws IOException, InterruptedException {
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
    while (true) {
      try {
        mustBeOurs();
        Iterator<Result> found = client.doAction(
            new Action(action, body.getBytes(StandardCharsets.UTF_8)), token,
            CallOptions.timeout(CALL_SECONDS, TimeUnit.SECONDS));
        return JSON.readTree(found.next().getBody());
      } catch (FlightRuntimeException error) {
        FlightStatusCode code = error.status().code();
        boolean isAway =
            code == FlightStatusCode.UNAVAILABLE || code == FlightStatusCode.TIMED_OUT;
        if (!isAway || System.nanoTime() > until) {
          throw new IOException(error.getMessage(), error);
        }
        LoggerFactory.getLogger(Receiver.class).warn("{} does not answer", address.url());
        Thread.sleep(500);
      }
    }
  }

  /** A part that sends the rows of `batch` at each `send`. */
  Part begin(String name, int task, VectorSchemaRoot batch) throws IOException {
    mustBeOurs();
    ObjectNode sent = names().put("epoch", name).put("writer", "task-" + task).put("attempt", "0");
    return new Part(sent, batch);
  }

  @Override
  public void close() {
    try (allocator) {
      client.close();
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  /** One DoPut. */
  final class Part implements FlightClient.PutListener {
    private final ObjectNode sent;
    private final FlightClient.ClientStreamListener stream;
    private final CompletableFuture<byte[]> answer = new CompletableFuture<>();

    private Part(ObjectNode sent, VectorSchemaRoot batch) throws IOException {
      this.sent = sent;
      this.stream = client.startPut(
          FlightDescriptor.command(JSON.writeValueAsBytes(sent)), batch, this, token);
    }

    void send() throws IOException, InterruptedException {
      while (!stream.isReady()) { // a slow receiver, or one whose disk is full
        if (answer.isDone()) {
          throw ended();
        }
        Thread.sleep(1);
      }
      stream.putNext();
    }

    /** Returns when the part is durable: its fields in a commit. */
    String finish() throws IOException, InterruptedException {
      stream.completed();
      ObjectNode part = (ObjectNode) sent.deepCopy().without(List.of("stream", "app"));
      try {
        part.setAll((ObjectNode) JSON.readTree(answer.get()));
      } catch (ExecutionException error) {
        throw ended();
      }
      return json(part);
    }

    void discard() {
      stream.error(new IOException("the writer ends"));
    }

    @Override
    public void onNext(PutResult found) {
      byte[] body = new byte[(int) found.getApplicationMetadata().readableBytes()];
      found.getApplicationMetadata().readBytes(body);
      answer.complete(body);
    }

    @Override
    public void onError(Throwable error) {
      answer.completeExceptionally(error);
    }

    @Override
    public void onCompleted() {
      answer.completeExceptionally(new IOException("the receiver has not confirmed the part"));
    }

    @Override
    public void getResult() {}

    private IOException ended() throws InterruptedException {
      try {
        answer.get();
        return new IOException("the receiver has ended the part too early");
      } catch (ExecutionException error) {
        return new IOException(error.getCause().getMessage(), error.getCause());
      }
    }
  }

  private String setting(String name, String variable) throws IOException {
    String found = null;
    if (address.secrets() != null) {
      Path path = Path.of(address.secrets());
      if (!PosixFilePermissions.toString(Files.getPosixFilePermissions(path)).endsWith("------")) {
        throw new IOException("other users can read the secrets in " + path + ": chmod 600");
      }
      Matcher line = Pattern.compile("(?m)^\\s*\"?" + name + "\"?\\s*=\\s*\"([^\"]*)\"")
          .matcher(Files.readString(path));
      found = line.find() ? line.group(1) : null;
    }
    if (found == null && variable != null && (found = System.getenv(variable)) == null) {
      throw new IOException("there is no " + name + ", neither in the secrets nor in " + variable);
    }
    return found;
  }

  /** Refuses to send the token readable to a program of another user. */
  private void mustBeOurs() throws IOException {
    if (plainPort == 0) {
      return;
    }
    int own = (Integer) Files.getAttribute(Path.of("/proc/self"), "unix:uid");
    String listens = String.format(":%04X", plainPort);
    for (String name : List.of("/proc/net/tcp", "/proc/net/tcp6")) {
      for (String line : Files.exists(Path.of(name)) ? Files.readAllLines(Path.of(name))
          : List.<String>of()) {
        String[] fields = line.trim().split("\\s+");
        if (fields[1].endsWith(listens) && fields[3].equals("0A")
            && Integer.parseInt(fields[7]) != own && !fields[7].equals("0")) {
          throw new IOException("another user (" + fields[7] + ") listens at port " + plainPort
              + ": the token would be sent to it readable. Use TLS (grpc+tls://)");
        }
      }
    }
  }
}

package paceline.flink;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.CommittingSinkWriter;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SupportsCommitter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.connector.sink2.CommittableMessage;
import org.apache.flink.streaming.api.connector.sink2.CommittableMessageTypeInfo;
import org.apache.flink.streaming.api.connector.sink2.CommittableSummary;
import org.apache.flink.streaming.api.connector.sink2.CommittableWithLineage;
import org.apache.flink.streaming.api.connector.sink2.SupportsPreCommitTopology;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Row;

/**
 * Flink writes into a training job. An epoch is a checkpoint, and each row counts once.
 *
 * <pre>
 *   rows.sinkTo(new PacelineSink("grpc://host:8815/clicks", "etl", "token.toml",
 *       Types.ROW_NAMED(new String[] {"user", "item"}, Types.LONG, Types.LONG)));
 * </pre>
 *
 * A writer sends its rows as they come, and makes them durable before the barrier of a checkpoint.
 * It does not know the checkpoint's number then, so each part is sent under a name of its own. One
 * operator gathers the parts of all writers, and the committer commits them under the number of
 * the checkpoint when that is complete. Flink repeats a commit after a failure. The receiver knows
 * it, and changes nothing.
 */
public class PacelineSink
    implements Sink<Row>, SupportsCommitter<String>, SupportsPreCommitTopology<String, String> {
  private final Receiver.Address address;
  private final RowTypeInfo columns;

  /** `secrets`: the receiver's file token.toml on each host; null: PACELINE_SINK_TOKEN. */
  public PacelineSink(String url, String app, String secrets, TypeInformation<Row> columns) {
    this.address = new Receiver.Address(url, app, secrets);
    this.columns = (RowTypeInfo) columns;
    Columns.schemaOf(this.columns); // refuses a type here, and not on a worker
  }

  @Override
  public CommittingSinkWriter<Row, String> createWriter(WriterInitContext context)
      throws IOException {
    return new PartWriter(address, columns, context.getTaskInfo().getIndexOfThisSubtask());
  }

  @Override
  public DataStream<CommittableMessage<String>> addPreCommitTopology(
      DataStream<CommittableMessage<String>> parts) {
    // global: all parts go to one task, and what it makes of them to one committer.
    return parts
        .global()
        .transform(
            "Paceline epochs",
            CommittableMessageTypeInfo.of(() -> Texts.UTF8),
            new Epochs(address))
        .setParallelism(1)
        .setMaxParallelism(1)
        .global();
  }

  @Override
  public Committer<String> createCommitter(CommitterInitContext context) throws IOException {
    Receiver receiver = new Receiver(address);
    return new Committer<>() {
      @Override
      public void commit(Collection<CommitRequest<String>> requests)
          throws IOException, InterruptedException {
        for (CommitRequest<String> one : requests) {
          receiver.act("commit", one.getCommittable());
        }
      }

      @Override
      public void close() {
        receiver.close();
      }
    };
  }

  /** Of a part: its fields in a commit, as JSON. */
  @Override
  public SimpleVersionedSerializer<String> getWriteResultSerializer() {
    return Texts.UTF8;
  }

  /** Of an epoch: the body of its commit. */
  @Override
  public SimpleVersionedSerializer<String> getCommittableSerializer() {
    return Texts.UTF8;
  }

  enum Texts implements SimpleVersionedSerializer<String> {
    UTF8;

    @Override
    public int getVersion() {
      return 1;
    }

    @Override
    public byte[] serialize(String text) {
      return text.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public String deserialize(int version, byte[] bytes) {
      return new String(bytes, StandardCharsets.UTF_8);
    }
  }

  /** Sends the rows of one task, a part for each checkpoint. */
  static final class PartWriter implements CommittingSinkWriter<Row, String> {
    private static final int ROWS = 2048; // of a record batch
    private final Receiver receiver;
    private final Columns columns;
    private final int task;
    private Receiver.Part part;

    PartWriter(Receiver.Address address, RowTypeInfo types, int task) throws IOException {
      this.receiver = new Receiver(address);
      this.columns = new Columns(types, receiver.allocator);
      this.task = task;
    }

    @Override
    public void write(Row row, Context context) throws IOException, InterruptedException {
      if (part == null) {
        receiver.act("last", Receiver.json(receiver.names())); // waits for a receiver
        part = receiver.begin(UUID.randomUUID().toString(), task, columns.batch);
      }
      columns.add(row);
      if (columns.rows() == ROWS) {
        sendRows();
      }
    }

    @Override
    public void flush(boolean isAtEnd) {} // rows become durable in prepareCommit

    @Override
    public Collection<String> prepareCommit() throws IOException, InterruptedException {
      if (part == null) {
        return List.of();
      }
      sendRows();
      String written = part.finish();
      part = null;
      return List.of(written);
    }

    @Override
    public void close() {
      if (part != null) {
        part.discard();
      }
      columns.close();
      receiver.close();
    }

    private void sendRows() throws IOException, InterruptedException {
      columns.seal();
      part.send();
      columns.clear();
    }
  }

  /** Makes one commit of the parts that all writers have sent before a checkpoint. */
  static final class Epochs extends AbstractStreamOperator<CommittableMessage<String>>
      implements OneInputStreamOperator<CommittableMessage<String>, CommittableMessage<String>> {
    private final Receiver.Address address;
    private transient List<CommittableWithLineage<String>> parts;

    Epochs(Receiver.Address address) {
      this.address = address;
    }

    @Override
    public void open() {
      parts = new ArrayList<>();
    }

    @Override
    public void processElement(StreamRecord<CommittableMessage<String>> message) {
      if (message.getValue() instanceof CommittableWithLineage<String> part) {
        parts.add(part);
      }
    }

    @Override
    public void prepareSnapshotPreBarrier(long checkpoint) throws IOException {
      if (parts.isEmpty()) {
        return;
      }
      List<String> bodies = parts.stream().map(CommittableWithLineage::getCommittable).toList();
      String commit = address.commitOf(Long.toString(checkpoint), bodies);
      output.collect(new StreamRecord<>(new CommittableSummary<>(0, 1, checkpoint, 1, 0)));
      output.collect(new StreamRecord<>(new CommittableWithLineage<>(commit, checkpoint, 0)));
      parts.clear();
    }

    /** At the end of the input a writer numbers its last part as the checkpoint to come. */
    @Override
    public void finish() throws IOException {
      prepareSnapshotPreBarrier(
          parts.stream().mapToLong(CommittableWithLineage::getCheckpointId).max().orElse(0));
    }
  }
}

package paceline.flink;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.CommittingSinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.Row;

/**
 * Writes clicks FIRST to LAST on a MiniCluster of two tasks, and goes on at the newest checkpoint
 * in CHECKPOINTS: `ClicksJob URL SECRETS CHECKPOINTS FIRST LAST`. The environment names a fault
 * that happens once, as in faulty.py. Of this job alone is `again`: a commit fails when it is done.
 */
public final class ClicksJob {
  static final TypeInformation<Row> COLUMNS =
      Types.ROW_NAMED(new String[] {"click", "user", "marks"}, Types.LONG, Types.STRING,
          Types.PRIMITIVE_ARRAY(Types.FLOAT));

  public static void main(String[] words) throws Exception {
    Path checkpoints = Path.of(words[2]);
    long first = Long.parseLong(words[3]);
    Configuration settings = new Configuration();
    settings.setString("execution.checkpointing.dir", checkpoints.toUri().toString());
    settings.setString("execution.checkpointing.interval", "300 ms");
    settings.setString("execution.checkpointing.num-retained", "3");
    settings.setString("restart-strategy.type", "fixed-delay");
    settings.setString("restart-strategy.fixed-delay.attempts", "3");
    settings.setString("restart-strategy.fixed-delay.delay", "200 ms");
    settings.setString("rest.bind-address", "127.0.0.1");
    Optional<Path> newest = newestIn(checkpoints);
    if (newest.isPresent()) {
      settings.setString("execution.state-recovery.path", newest.get().toUri().toString());
    }
    StreamExecutionEnvironment flink =
        StreamExecutionEnvironment.createLocalEnvironment(2, settings);
    DataGeneratorSource<Row> clicks = new DataGeneratorSource<>(
        number -> rowOf(first + number), Long.parseLong(words[4]) - first,
        RateLimiterStrategy.perSecond(3000), COLUMNS);
    flink.fromSource(clicks, WatermarkStrategy.noWatermarks(), "clicks").uid("clicks")
        .sinkTo(new FaultySink(words[0], words[1])).uid("sink");
    flink.execute("clicks");
  }

  private static Row rowOf(long click) {
    String user = click % 7 == 0 ? null : "user " + click;
    return Row.of(click, user, new float[] {click, click / 2f});
  }

  private static Optional<Path> newestIn(Path checkpoints) throws IOException {
    if (!Files.exists(checkpoints)) {
      return Optional.empty();
    }
    try (Stream<Path> all = Files.walk(checkpoints, 3)) {
      return all.filter(path -> path.endsWith("_metadata"))
          .max(Comparator.comparing(path -> path.toFile().lastModified())).map(Path::getParent);
    }
  }

  static boolean isNow(String fault) throws IOException {
    if (!fault.equals(System.getenv("FAULT"))) {
      return false;
    }
    try {
      Files.createFile(Path.of(System.getenv("FAULT_MARK")));
      return true;
    } catch (FileAlreadyExistsException error) {
      return false;
    }
  }

  /** The supervisor kills the whole program. */
  static void die() throws IOException, InterruptedException {
    Files.createFile(Path.of(System.getenv("DIE_FILE")));
    Thread.sleep(600_000);
  }

  static final class FaultySink extends PacelineSink {
    FaultySink(String url, String secrets) {
      super(url, "flink", secrets, COLUMNS);
    }

    @Override
    public CommittingSinkWriter<Row, String> createWriter(WriterInitContext context)
        throws IOException {
      CommittingSinkWriter<Row, String> real = super.createWriter(context);
      return new CommittingSinkWriter<>() {
        private int rows;

        @Override
        public void write(Row row, Context where) throws IOException, InterruptedException {
          real.write(row, where);
          if (++rows == 1200 && isNow("write")) {
            throw new IOException("a fault of the test");
          }
        }

        @Override
        public void flush(boolean isAtEnd) throws IOException, InterruptedException {
          real.flush(isAtEnd);
        }

        @Override
        public Collection<String> prepareCommit() throws IOException, InterruptedException {
          return real.prepareCommit();
        }

        @Override
        public void close() throws Exception {
          real.close();
        }
      };
    }

    @Override
    public Committer<String> createCommitter(CommitterInitContext context) throws IOException {
      Committer<String> real = super.createCommitter(context);
      return new Committer<>() {
        @Override
        public void commit(Collection<CommitRequest<String>> requests)
            throws IOException, InterruptedException {
          if (isNow("before")) {
            die();
          }
          real.commit(requests);
          if (isNow("after")) {
            die();
          }
          if (isNow("again")) {
            throw new IOException("a fault of the test");
          }
        }

        @Override
        public void close() throws Exception {
          real.close();
        }
      };
    }
  }
}

package paceline.flink;

import java.lang.reflect.Array;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float4Vector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.SmallIntVector;
import org.apache.arrow.vector.TinyIntVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.types.FloatingPointPrecision;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.flink.api.common.typeinfo.BasicArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/** Rows of Flink as an Arrow batch: numbers, texts, bytes, and arrays of numbers and texts. */
final class Columns implements AutoCloseable {
  private static final Map<TypeInformation<?>, ArrowType> TYPES =
      Map.of(
          Types.BOOLEAN, new ArrowType.Bool(),
          Types.BYTE, new ArrowType.Int(8, true),
          Types.SHORT, new ArrowType.Int(16, true),
          Types.INT, new ArrowType.Int(32, true),
          Types.LONG, new ArrowType.Int(64, true),
          Types.FLOAT, new ArrowType.FloatingPoint(FloatingPointPrecision.SINGLE),
          Types.DOUBLE, new ArrowType.FloatingPoint(FloatingPointPrecision.DOUBLE),
          Types.STRING, new ArrowType.Utf8(),
          PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, new ArrowType.Binary());

  final VectorSchemaRoot batch;
  private int rows;

  Columns(RowTypeInfo types, BufferAllocator allocator) {
    batch = VectorSchemaRoot.create(schemaOf(types), allocator);
  }

  static Schema schemaOf(RowTypeInfo types) {
    List<Field> fields = new ArrayList<>();
    for (String name : types.getFieldNames()) {
      fields.add(field(name, types.getTypeAt(name)));
    }
    return new Schema(fields);
  }

  int rows() {
    return rows;
  }

  void add(Row row) {
    if (row.getKind() != RowKind.INSERT) {
      throw new IllegalArgumentException(
          "a stream has records, and no updates of them: the row " + row + ". Write a table that"
              + " only inserts, or drop what is not of the kind INSERT");
    }
    if (row.getArity() != batch.getFieldVectors().size()) {
      throw new IllegalArgumentException(
          "the row " + row + " has other columns than the sink: " + batch.getSchema());
    }
    for (int column = 0; column < row.getArity(); column++) {
      set(batch.getVector(column), rows, row.getField(column));
    }
    rows++;
  }

  void seal() {
    batch.setRowCount(rows);
  }

  void clear() {
    batch.clear();
    rows = 0;
  }

  @Override
  public void close() {
    batch.close();
  }

  private static Field field(String name, TypeInformation<?> type) {
    ArrowType plain = TYPES.get(type);
    if (plain != null) {
      return new Field(name, FieldType.nullable(plain), null);
    }
    TypeInformation<?> item =
        type instanceof PrimitiveArrayTypeInfo<?> array ? array.getComponentType()
        : type instanceof BasicArrayTypeInfo<?, ?> array ? array.getComponentInfo() : null;
    if (item == null) {
      throw new IllegalArgumentException(
          "the column " + name + " cannot be sent: its type " + type + " is none of "
              + TYPES.keySet() + " nor an array of them. Convert it before the sink");
    }
    return new Field(
        name, FieldType.nullable(new ArrowType.List()), List.of(field("item", item)));
  }

  private static void set(FieldVector vector, int row, Object value) {
    if (value == null) {
      while (vector.getValueCapacity() <= row) {
        vector.reAlloc();
      }
      vector.setNull(row);
    } else if (vector instanceof BigIntVector one) {
      one.setSafe(row, (Long) value);
    } else if (vector instanceof IntVector one) {
      one.setSafe(row, (Integer) value);
    } else if (vector instanceof SmallIntVector one) {
      one.setSafe(row, (Short) value);
    } else if (vector instanceof TinyIntVector one) {
      one.setSafe(row, (Byte) value);
    } else if (vector instanceof Float4Vector one) {
      one.setSafe(row, (Float) value);
    } else if (vector instanceof Float8Vector one) {
      one.setSafe(row, (Double) value);
    } else if (vector instanceof BitVector one) {
      one.setSafe(row, (Boolean) value ? 1 : 0);
    } else if (vector instanceof VarCharVector one) {
      one.setSafe(row, ((String) value).getBytes(StandardCharsets.UTF_8));
    } else if (vector instanceof VarBinaryVector one) {
      one.setSafe(row, (byte[]) value);
    } else {
      ListVector list = (ListVector) vector;
      int first = list.startNewValue(row);
      int length = Array.getLength(value);
      for (int place = 0; place < length; place++) {
        set(list.getDataVector(), first + place, Array.get(value, place));
      }
      list.endValue(row, length);
    }
  }
}

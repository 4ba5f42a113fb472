#include "data/arrow/plugin/value_writer.h"

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/float16.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "data/arrow/plugin/json_text.h"

namespace ftune::arrow_plugin {
namespace {

constexpr char kJsonExtension[] = "arrow.json";
constexpr char kExtensionNameKey[] = "ARROW:extension:name";
constexpr char kDropOrCast[] = "; leave the column out or write it as text or numbers";

using Writer = std::unique_ptr<ValueWriter>;

// The file or its schema is to blame.
bool Fail(Fault& fault, const std::string& path, std::string message) {
  fault = {.column = path, .message = std::move(message)};
  return false;
}

// A value is to blame.
bool BadValue(Fault& fault, const std::string& path, std::string message) {
  fault = {.column = path, .message = std::move(message), .value = true};
  return false;
}

bool Broken(Fault& fault, const std::string& path) {
  return Fail(fault, path, "the file is damaged: an offset points outside the column's data");
}

// What all writers share: the column's name and null.
template <typename ArrayType>
class ArrayWriter : public ValueWriter {
 public:
  ArrayWriter(const std::shared_ptr<arrow::Array>& array, std::string path)
      : array_(std::static_pointer_cast<ArrayType>(array)), path_(std::move(path)) {}

  bool Write(int64_t index, std::string& to, Fault& fault) const final {
    if (array_->IsNull(index)) {
      to.append("null");
      return true;
    }
    return WriteValue(index, to, fault);
  }

 protected:
  // Value `index`, which is not null.
  virtual bool WriteValue(int64_t index, std::string& to, Fault& fault) const = 0;

  const ArrayType& array() const { return *array_; }
  const std::string& path() const { return path_; }

 private:
  std::shared_ptr<ArrayType> array_;
  std::string path_;
};

class NullWriter : public ValueWriter {
 public:
  bool Write(int64_t, std::string& to, Fault&) const override {
    to.append("null");
    return true;
  }
};

class BoolWriter : public ArrayWriter<arrow::BooleanArray> {
  using ArrayWriter::ArrayWriter;
  bool WriteValue(int64_t index, std::string& to, Fault&) const override {
    StrAppend(to, array().Value(index));
    return true;
  }
};

template <typename ArrayType>
class IntegerWriter : public ArrayWriter<ArrayType> {
  using ArrayWriter<ArrayType>::ArrayWriter;
  bool WriteValue(int64_t index, std::string& to, Fault&) const override {
    // Widened: an 8-bit integer would be taken for a character.
    using Value = typename ArrayType::value_type;
    StrAppend(to, static_cast<std::conditional_t<std::is_signed_v<Value>, int64_t, uint64_t>>(
                      this->array().Value(index)));
    return true;
  }
};

template <typename ArrayType>
class FloatWriter : public ArrayWriter<ArrayType> {
  using ArrayWriter<ArrayType>::ArrayWriter;
  bool WriteValue(int64_t index, std::string& to, Fault& fault) const override {
    double value = 0;
    if constexpr (std::is_same_v<ArrayType, arrow::HalfFloatArray>) {
      value = arrow::util::Float16::FromBits(this->array().Value(index)).ToDouble();
    } else {
      value = this->array().Value(index);
    }
    if (!std::isfinite(value)) {
      return BadValue(fault, this->path(),
                      StrCat("found ", std::isnan(value) ? "NaN" : "infinity", ", expected a finite number"));
    }
    AppendJsonNumber(value, to);
    return true;
  }
};

// Strings with offsets into one buffer, or views into several.
template <typename ArrayType>
class StringSource {
 public:
  // False where the offsets are broken.
  static bool Get(const ArrayType& array, int64_t index, std::string_view& text) {
    if constexpr (std::is_same_v<ArrayType, arrow::StringViewArray>) {
      const auto& view = array.raw_values()[index];
      if (view.size() < 0) return false;
      if (!view.is_inline()) {
        const auto& buffers = array.data()->buffers;  // validity, views, then the data
        const int64_t buffer = int64_t{view.ref.buffer_index} + 2;
        if (buffer < 2 || buffer >= static_cast<int64_t>(buffers.size()) || buffers[buffer] == nullptr) {
          return false;
        }
        if (view.ref.offset < 0 || int64_t{view.ref.offset} + view.size() > buffers[buffer]->size())
          return false;
      }
    } else {
      const int64_t begin = array.value_offset(index), end = array.value_offset(index + 1);
      const int64_t size = array.value_data() == nullptr ? 0 : array.value_data()->size();
      if (begin < 0 || begin > end || end > size) return false;
    }
    text = array.GetView(index);
    return true;
  }
};

template <typename ArrayType>
class StringWriter : public ArrayWriter<ArrayType> {
  using ArrayWriter<ArrayType>::ArrayWriter;
  bool WriteValue(int64_t index, std::string& to, Fault& fault) const override {
    std::string_view text;
    if (!StringSource<ArrayType>::Get(this->array(), index, text)) return Broken(fault, this->path());
    AppendJsonString(text, to);
    return true;
  }
};

// Text that is JSON already.
template <typename ArrayType>
class JsonWriter : public ArrayWriter<ArrayType> {
  using ArrayWriter<ArrayType>::ArrayWriter;
  bool WriteValue(int64_t index, std::string& to, Fault& fault) const override {
    std::string_view text;
    if (!StringSource<ArrayType>::Get(this->array(), index, text)) return Broken(fault, this->path());
    if (!nlohmann::json::accept(text)) {
      return BadValue(fault, this->path(), "the text of this arrow.json column is not JSON");
    }
    const size_t begin = to.size();
    to.append(text);
    // A row is one line; outside strings a line's end is white space, and inside it is not JSON.
    std::replace(to.begin() + static_cast<int64_t>(begin), to.end(), '\n', ' ');
    return true;
  }
};

template <typename ArrayType>
class DecimalWriter : public ArrayWriter<ArrayType> {
  using ArrayWriter<ArrayType>::ArrayWriter;
  bool WriteValue(int64_t index, std::string& to, Fault&) const override {
    AppendJsonString(this->array().FormatValue(index), to);
    return true;
  }
};

int64_t PerSecond(arrow::TimeUnit::type unit) {
  switch (unit) {
    case arrow::TimeUnit::SECOND:
      return 1;
    case arrow::TimeUnit::MILLI:
      return 1'000;
    case arrow::TimeUnit::MICRO:
      return 1'000'000;
    case arrow::TimeUnit::NANO:
      return 1'000'000'000;
  }
  return 1;
}

template <typename ArrayType>
class DateWriter : public ArrayWriter<ArrayType> {
  using ArrayWriter<ArrayType>::ArrayWriter;
  bool WriteValue(int64_t index, std::string& to, Fault& fault) const override {
    constexpr int64_t kMillisecondsPerDay = 86'400'000;
    int64_t value = this->array().Value(index);
    if constexpr (std::is_same_v<ArrayType, arrow::Date64Array>) {
      if (value % kMillisecondsPerDay != 0) {
        return BadValue(fault, this->path(), "found a date that is not a whole number of days");
      }
      value /= kMillisecondsPerDay;
    }
    return AppendJsonDate(value, to) ||
           BadValue(fault, this->path(), "found a date outside the years 1 to 9999");
  }
};

class TimestampWriter : public ArrayWriter<arrow::TimestampArray> {
 public:
  TimestampWriter(const std::shared_ptr<arrow::Array>& array, std::string path)
      : ArrayWriter(array, std::move(path)) {
    const auto& type = static_cast<const arrow::TimestampType&>(*array->type());
    per_second_ = PerSecond(type.unit());
    has_zone_ = !type.timezone().empty();  // the values are UTC then
  }

 private:
  bool WriteValue(int64_t index, std::string& to, Fault& fault) const override {
    return AppendJsonTimestamp(array().Value(index), per_second_, has_zone_, to) ||
           BadValue(fault, path(), "found a time outside the years 1 to 9999");
  }

  int64_t per_second_ = 1;
  bool has_zone_ = false;
};

template <typename ArrayType>
class TimeWriter : public ArrayWriter<ArrayType> {
 public:
  TimeWriter(const std::shared_ptr<arrow::Array>& array, std::string path)
      : ArrayWriter<ArrayType>(array, std::move(path)),
        per_second_(PerSecond(static_cast<const arrow::TimeType&>(*array->type()).unit())) {}

 private:
  bool WriteValue(int64_t index, std::string& to, Fault& fault) const override {
    return AppendJsonTime(this->array().Value(index), per_second_, to) ||
           BadValue(fault, this->path(), "found a time of day outside 00:00 to 24:00");
  }

  int64_t per_second_;
};

class DictionaryWriter : public ArrayWriter<arrow::DictionaryArray> {
 public:
  DictionaryWriter(const std::shared_ptr<arrow::Array>& array, std::string path, Writer values)
      : ArrayWriter(array, std::move(path)), values_(std::move(values)) {}

 private:
  bool WriteValue(int64_t index, std::string& to, Fault& fault) const override {
    const int64_t value = array().GetValueIndex(index);
    if (value < 0 || value >= array().dictionary()->length()) return Broken(fault, path());
    return values_->Write(value, to, fault);
  }

  Writer values_;
};

// Lists of every kind: each has value_offset and value_length.
template <typename ArrayType>
class ListWriter : public ArrayWriter<ArrayType> {
 public:
  ListWriter(const std::shared_ptr<arrow::Array>& array, std::string path, Writer values)
      : ArrayWriter<ArrayType>(array, std::move(path)), values_(std::move(values)) {}

 private:
  bool WriteValue(int64_t index, std::string& to, Fault& fault) const override {
    const int64_t begin = this->array().value_offset(index), length = this->array().value_length(index);
    if (begin < 0 || length < 0 || begin > this->array().values()->length() - length) {
      return Broken(fault, this->path());
    }
    to.push_back('[');
    for (int64_t i = 0; i < length; ++i) {
      if (i > 0) to.push_back(',');
      if (!values_->Write(begin + i, to, fault)) return false;
    }
    to.push_back(']');
    return true;
  }

  Writer values_;
};

// Keys and values side by side, as one JSON object each row.
class Fields {
 public:
  // False, with `fault`, where a name comes twice.
  bool Add(const std::string& name, const std::string& path, Writer values, Fault& fault) {
    if (!names_.insert(name).second) {
      return Fail(fault, path, "two columns have this name; rename one of them");
    }
    std::string key = members_.empty() ? "{" : ",";
    AppendJsonString(name, key);
    key.push_back(':');
    members_.push_back({std::move(key), std::move(values)});
    return true;
  }
  bool Write(int64_t index, std::string& to, Fault& fault) const {
    if (members_.empty()) to.push_back('{');
    for (const Member& member : members_) {
      to.append(member.key);
      if (!member.values->Write(index, to, fault)) return false;
    }
    to.push_back('}');
    return true;
  }

 private:
  struct Member {
    std::string key;  // with the brace or comma before and the colon after
    Writer values;
  };
  std::unordered_set<std::string> names_;
  std::vector<Member> members_;
};

class StructWriter : public ArrayWriter<arrow::StructArray> {
 public:
  StructWriter(const std::shared_ptr<arrow::Array>& array, std::string path, Fields fields)
      : ArrayWriter(array, std::move(path)), fields_(std::move(fields)) {}

 private:
  bool WriteValue(int64_t index, std::string& to, Fault& fault) const override {
    return fields_.Write(index, to, fault);
  }

  Fields fields_;
};

// A map whose keys are text: an object.
class MapWriter : public ArrayWriter<arrow::MapArray> {
 public:
  MapWriter(const std::shared_ptr<arrow::Array>& array, std::string path, Writer keys, Writer items)
      : ArrayWriter(array, std::move(path)), keys_(std::move(keys)), items_(std::move(items)) {}

 private:
  bool WriteValue(int64_t index, std::string& to, Fault& fault) const override {
    const int64_t begin = array().value_offset(index), length = array().value_length(index);
    const int64_t size = std::min(array().keys()->length(), array().items()->length());
    if (begin < 0 || length < 0 || begin > size - length) return Broken(fault, path());
    std::unordered_set<std::string> seen;
    to.push_back('{');
    for (int64_t i = begin; i < begin + length; ++i) {
      if (i > begin) to.push_back(',');
      const size_t key = to.size();
      if (!keys_->Write(i, to, fault)) return false;
      if (to[key] != '"') return BadValue(fault, path(), "found null as a map's key, expected text");
      if (!seen.insert(to.substr(key)).second) {
        return BadValue(fault, path(), StrCat("the map has the key ", to.substr(key), " twice"));
      }
      to.push_back(':');
      if (!items_->Write(i, to, fault)) return false;
    }
    to.push_back('}');
    return true;
  }

  Writer keys_, items_;
};

class RowWriter : public ValueWriter {
 public:
  explicit RowWriter(Fields fields) : fields_(std::move(fields)) {}
  bool Write(int64_t index, std::string& to, Fault& fault) const override {
    return fields_.Write(index, to, fault);
  }

 private:
  Fields fields_;
};

bool IsText(arrow::Type::type id) {
  return id == arrow::Type::STRING || id == arrow::Type::LARGE_STRING || id == arrow::Type::STRING_VIEW;
}

template <template <typename> class TextWriter>
Writer MakeTextWriter(const std::shared_ptr<arrow::Array>& array, const std::string& path) {
  switch (array->type_id()) {
    case arrow::Type::LARGE_STRING:
      return std::make_unique<TextWriter<arrow::LargeStringArray>>(array, path);
    case arrow::Type::STRING_VIEW:
      return std::make_unique<TextWriter<arrow::StringViewArray>>(array, path);
    default:
      return std::make_unique<TextWriter<arrow::StringArray>>(array, path);
  }
}

Writer Refuse(const std::string& path, std::string_view found, Fault& fault) {
  Fail(fault, path, StrCat("found ", found, ", which has no JSON form", kDropOrCast));
  return nullptr;
}

// The name of the extension that a field has, registered with Arrow or not; empty where it has none.
std::string ExtensionName(const arrow::Field& field) {
  if (field.type()->id() == arrow::Type::EXTENSION) {
    return static_cast<const arrow::ExtensionType&>(*field.type()).extension_name();
  }
  if (field.metadata() == nullptr) return "";
  return field.metadata()->Get(kExtensionNameKey).ValueOr("");
}

template <typename ArrayType>
Writer MakeListWriter(const std::shared_ptr<arrow::Array>& array, const std::string& path, Fault& fault) {
  Writer values =
      MakeValueWriter(*array->type()->field(0), static_cast<const ArrayType&>(*array).values(), path, fault);
  if (values == nullptr) return nullptr;
  return std::make_unique<ListWriter<ArrayType>>(array, path, std::move(values));
}

Writer MakeStructWriter(const std::shared_ptr<arrow::Array>& array, const std::string& path, Fault& fault) {
  const auto& type = static_cast<const arrow::StructType&>(*array->type());
  Fields fields;
  for (int i = 0; i < type.num_fields(); ++i) {
    const arrow::Field& field = *type.field(i);
    const std::string inner = StrCat(path, ".", field.name());
    Writer values =
        MakeValueWriter(field, static_cast<const arrow::StructArray&>(*array).field(i), inner, fault);
    if (values == nullptr || !fields.Add(field.name(), inner, std::move(values), fault)) return nullptr;
  }
  return std::make_unique<StructWriter>(array, path, std::move(fields));
}

Writer MakeMapWriter(const std::shared_ptr<arrow::Array>& array, const std::string& path, Fault& fault) {
  const auto& map = static_cast<const arrow::MapArray&>(*array);
  if (!IsText(map.map_type()->key_type()->id())) {
    return Refuse(path, StrCat("a map with keys of type ", map.map_type()->key_type()->ToString()), fault);
  }
  Writer keys = MakeValueWriter(*map.map_type()->key_field(), map.keys(), path, fault);
  if (keys == nullptr) return nullptr;
  Writer items = MakeValueWriter(*map.map_type()->item_field(), map.items(), path, fault);
  if (items == nullptr) return nullptr;
  return std::make_unique<MapWriter>(array, path, std::move(keys), std::move(items));
}

template <typename ArrayType>
Writer MakeDecimalWriter(const std::shared_ptr<arrow::Array>& array, const std::string& path, Fault& fault) {
  constexpr int32_t kMaxScale = 1000;  // a damaged one could ask for text of gigabytes
  const int32_t scale = static_cast<const arrow::DecimalType&>(*array->type()).scale();
  if (scale < -kMaxScale || scale > kMaxScale) {
    return Refuse(path, StrCat("a decimal of scale ", scale), fault);
  }
  return std::make_unique<DecimalWriter<ArrayType>>(array, path);
}

Writer MakeDictionaryWriter(const std::shared_ptr<arrow::Array>& array, const std::string& path,
                            Fault& fault) {
  const std::shared_ptr<arrow::Array>& values =
      static_cast<const arrow::DictionaryArray&>(*array).dictionary();
  Writer writer = MakeValueWriter(arrow::Field("", values->type()), values, path, fault);
  if (writer == nullptr) return nullptr;
  return std::make_unique<DictionaryWriter>(array, path, std::move(writer));
}

}  // namespace

Writer MakeValueWriter(const arrow::Field& field, const std::shared_ptr<arrow::Array>& given,
                       const std::string& path, Fault& fault) {
  std::shared_ptr<arrow::Array> array = given;
  if (array->type_id() == arrow::Type::EXTENSION) {
    array = static_cast<const arrow::ExtensionArray&>(*array).storage();
  }
  if (const std::string extension = ExtensionName(field); !extension.empty()) {
    if (extension != kJsonExtension || !IsText(array->type_id())) {
      return Refuse(path, StrCat("the extension type ", extension), fault);
    }
    return MakeTextWriter<JsonWriter>(array, path);
  }
  switch (array->type_id()) {
    case arrow::Type::NA:
      return std::make_unique<NullWriter>();
    case arrow::Type::BOOL:
      return std::make_unique<BoolWriter>(array, path);
    case arrow::Type::INT8:
      return std::make_unique<IntegerWriter<arrow::Int8Array>>(array, path);
    case arrow::Type::INT16:
      return std::make_unique<IntegerWriter<arrow::Int16Array>>(array, path);
    case arrow::Type::INT32:
      return std::make_unique<IntegerWriter<arrow::Int32Array>>(array, path);
    case arrow::Type::INT64:
      return std::make_unique<IntegerWriter<arrow::Int64Array>>(array, path);
    case arrow::Type::UINT8:
      return std::make_unique<IntegerWriter<arrow::UInt8Array>>(array, path);
    case arrow::Type::UINT16:
      return std::make_unique<IntegerWriter<arrow::UInt16Array>>(array, path);
    case arrow::Type::UINT32:
      return std::make_unique<IntegerWriter<arrow::UInt32Array>>(array, path);
    case arrow::Type::UINT64:
      return std::make_unique<IntegerWriter<arrow::UInt64Array>>(array, path);
    case arrow::Type::HALF_FLOAT:
      return std::make_unique<FloatWriter<arrow::HalfFloatArray>>(array, path);
    case arrow::Type::FLOAT:
      return std::make_unique<FloatWriter<arrow::FloatArray>>(array, path);
    case arrow::Type::DOUBLE:
      return std::make_unique<FloatWriter<arrow::DoubleArray>>(array, path);
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW:
      return MakeTextWriter<StringWriter>(array, path);
    case arrow::Type::DATE32:
      return std::make_unique<DateWriter<arrow::Date32Array>>(array, path);
    case arrow::Type::DATE64:
      return std::make_unique<DateWriter<arrow::Date64Array>>(array, path);
    case arrow::Type::TIMESTAMP:
      return std::make_unique<TimestampWriter>(array, path);
    case arrow::Type::TIME32:
      return std::make_unique<TimeWriter<arrow::Time32Array>>(array, path);
    case arrow::Type::TIME64:
      return std::make_unique<TimeWriter<arrow::Time64Array>>(array, path);
    case arrow::Type::DECIMAL32:
      return MakeDecimalWriter<arrow::Decimal32Array>(array, path, fault);
    case arrow::Type::DECIMAL64:
      return MakeDecimalWriter<arrow::Decimal64Array>(array, path, fault);
    case arrow::Type::DECIMAL128:
      return MakeDecimalWriter<arrow::Decimal128Array>(array, path, fault);
    case arrow::Type::DECIMAL256:
      return MakeDecimalWriter<arrow::Decimal256Array>(array, path, fault);
    case arrow::Type::DICTIONARY:
      return MakeDictionaryWriter(array, path, fault);
    case arrow::Type::LIST:
      return MakeListWriter<arrow::ListArray>(array, path, fault);
    case arrow::Type::LARGE_LIST:
      return MakeListWriter<arrow::LargeListArray>(array, path, fault);
    case arrow::Type::LIST_VIEW:
      return MakeListWriter<arrow::ListViewArray>(array, path, fault);
    case arrow::Type::LARGE_LIST_VIEW:
      return MakeListWriter<arrow::LargeListViewArray>(array, path, fault);
    case arrow::Type::FIXED_SIZE_LIST:
      return MakeListWriter<arrow::FixedSizeListArray>(array, path, fault);
    case arrow::Type::STRUCT:
      return MakeStructWriter(array, path, fault);
    case arrow::Type::MAP:
      return MakeMapWriter(array, path, fault);
    default:
      return Refuse(path, StrCat("the type ", array->type()->ToString()), fault);
  }
}

Writer MakeRowWriter(const arrow::RecordBatch& batch, Fault& fault) {
  Fields fields;
  for (int i = 0; i < batch.num_columns(); ++i) {
    const arrow::Field& field = *batch.schema()->field(i);
    Writer values = MakeValueWriter(field, batch.column(i), field.name(), fault);
    if (values == nullptr || !fields.Add(field.name(), field.name(), std::move(values), fault))
      return nullptr;
  }
  return std::make_unique<RowWriter>(std::move(fields));
}

}  // namespace ftune::arrow_plugin

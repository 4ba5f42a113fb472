#include "data/source/row_hash.h"

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/xxh3_stream.h"

namespace ftune {
namespace {

class Hasher {
 public:
  void Add(const OrderedJson& value) {
    switch (value.type()) {
      case OrderedJson::value_t::boolean:
        return Tag(value.get<bool>() ? 't' : 'f');
      case OrderedJson::value_t::number_integer:
      case OrderedJson::value_t::number_unsigned: {
        const bool negative = !value.is_number_unsigned() && value.get<int64_t>() < 0;
        return Number(negative ? '-' : '+', value.get<uint64_t>());
      }
      case OrderedJson::value_t::number_float:
        return Number('d', std::bit_cast<uint64_t>(value.get<double>()));
      case OrderedJson::value_t::string:
        return Text(value.get_ref<const std::string&>());
      case OrderedJson::value_t::array:
        Number('[', value.size());
        for (const OrderedJson& item : value) Add(item);
        return;
      case OrderedJson::value_t::object:
        return Object(value.get_ref<const OrderedJson::object_t&>());
      default:  // no JSON text has others
        return Tag('0');
    }
  }

  uint64_t Digest() const { return hash_.Digest64(); }

 private:
  void Tag(char tag) { hash_.Add({&tag, 1}); }
  void Number(char tag, uint64_t number) {
    char bytes[9] = {tag};
    for (int i = 0; i < 8; ++i) bytes[1 + i] = static_cast<char>(number >> 8 * i);
    hash_.Add({bytes, sizeof(bytes)});
  }
  void Text(std::string_view text) {
    Number('"', text.size());
    hash_.Add(text);
  }
  void Object(const OrderedJson::object_t& members) {
    std::vector<const OrderedJson::object_t::value_type*> by_key;
    by_key.reserve(members.size());
    for (const auto& member : members) by_key.push_back(&member);
    std::sort(by_key.begin(), by_key.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
    Number('{', by_key.size());
    for (const auto* member : by_key) {
      Text(member->first);
      Add(member->second);
    }
  }

  Xxh3Stream hash_;
};

}  // namespace

uint64_t HashRow(const OrderedJson& row) {
  Hasher hasher;
  hasher.Add(row);
  return hasher.Digest();
}

}  // namespace ftune

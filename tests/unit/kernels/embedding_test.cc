#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

TEST_CASE("embedding rows of every type") {
  ForEachTarget([] {
    Device device;
    const std::vector<int32_t> ids = {4, 0, 4, 9, 1};
    for (const DType type : WeightTypes()) {
      for (const int64_t cols : {Columns(type, 1), IsQuantized(type) ? Columns(type, 3) : int64_t{577}}) {
        CAPTURE(Name(type));
        const Tensor table = device.RandomWeight(type, 10, cols, 1, Columns(type, 2));
        const Tensor out = device.Empty(5, cols, 6);
        device.backend.EmbeddingForward({}, device.Ints(ids), table, 0, out);
        const Matrix rows = Values(table);
        Matrix expected;
        for (const int32_t id : ids) {
          expected.insert(expected.end(), rows.begin() + id * cols, rows.begin() + (id + 1) * cols);
        }
        CHECK(ErrorInEps(out, expected) == 0);
      }
    }
  });
}

TEST_CASE("embedding gradients add up in order of the tokens") {
  Device device(3);
  for (const int64_t cols : kSizes) {
    CAPTURE(cols);
    const std::vector<int32_t> ids = {2, 0, 2, 2, 1, 0};
    const Tensor dy = device.Random(6, cols, 1, 4);
    const Tensor dtable = device.Random(4, cols, 2, 2);
    const Tensor expected = device.Copy(dtable);
    for (int64_t t = 0; t < 6; ++t) {
      for (int64_t c = 0; c < cols; ++c) {
        expected.f32()[ids[t] * expected.stride() + c] += dy.f32()[t * dy.stride() + c];
      }
    }
    device.backend.EmbeddingBackward({}, device.Ints(ids), dy, 0, dtable);
    CHECK(SameBits(dtable, expected));
  }
}

TEST_CASE("a table of some rows of a larger one gives zeros for the others, and takes no gradient of them") {
  Device device(3);
  const std::vector<int32_t> ids = {2, 0, 5, 9, 4, 5};
  const Tensor whole = device.Random(10, 33, 1);
  const Tensor table = whole.Rows(3, 3);  // ids 3, 4 and 5
  const Tensor out = device.Filled(6, 33, 7.0f, 2);
  device.backend.EmbeddingForward({}, device.Ints(ids), table, 3, out);
  const Tensor dy = device.Random(6, 33, 2, 4);
  const Tensor dtable = device.Filled(3, 33, 0.0f), dwhole = device.Filled(10, 33, 0.0f);
  device.backend.EmbeddingBackward({}, device.Ints(ids), dy, 3, dtable);
  device.backend.EmbeddingBackward({}, device.Ints(ids), dy, 0, dwhole);
  for (int64_t t = 0; t < 6; ++t) {
    const bool has = ids[t] >= 3 && ids[t] < 6;
    CHECK(SameBits(out.Rows(t, 1), has ? whole.Rows(ids[t], 1) : device.Filled(1, 33, 0.0f)));
  }
  CHECK(SameBits(dtable, dwhole.Rows(3, 3)));
}

TEST_CASE("gathering and scattering rows") {
  Device device;
  const Tensor from = device.Random(6, 33, 1, 5);
  const Tensor rows = device.Ints({5, 1, 3});
  const Tensor to = device.Empty(3, 33, 2);
  device.backend.GatherRows({}, from, rows, to);
  CHECK(SameBits(to.Rows(0, 1), from.Rows(5, 1)));
  CHECK(SameBits(to.Rows(1, 1), from.Rows(1, 1)));
  CHECK(SameBits(to.Rows(2, 1), from.Rows(3, 1)));

  const Tensor back = device.Filled(6, 33, 9.0f, 4);
  device.backend.ScatterRows({}, to, rows, back);
  for (const int64_t row : {1, 3, 5}) CHECK(SameBits(back.Rows(row, 1), from.Rows(row, 1)));
  for (const int64_t row : {0, 2, 4}) CHECK(ErrorInEps(back.Rows(row, 1), Matrix(33, 9.0)) == 0);
}

}  // namespace
}  // namespace ftune::test

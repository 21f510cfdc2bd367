/// \file failure.h
/// Errors of generated code on their way to Python, as plain C++ exceptions inside the library.
///
/// Every library compiles this text, so it includes no string class: a message is joined from pieces out of line.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>

namespace tilefoundry {
namespace host {

/// A Python exception to be raised by the entry: its class name and text.
struct Failure {
  static constexpr int capacity = 4096;
  const char* kind;
  char message[capacity];
};

/// DLPack's codes of element types, as its header numbers them; libraries for the CPU need not have that header.
enum class TypeCode : std::int64_t {
  i = 0, u = 1, f = 2, bf = 4, complex = 5, boolean = 6, fp8e4m3 = 10, fp8e5m2 = 12, f8e8m0 = 14, f4e2m1 = 17,
};

/// One part of a message: a text, a number, an element type, or a shape as `(2, 3)`.
class Piece {
 public:
  Piece(const char* text) : kind_(Kind::text), text_(text), numbers_(nullptr), number_(0) {}
  Piece(int number) : Piece(static_cast<std::int64_t>(number)) {}
  Piece(std::int64_t number) : kind_(Kind::number), text_(nullptr), numbers_(nullptr), number_(number) {}
  Piece(std::int64_t const* shape, int rank) : kind_(Kind::shape), text_(nullptr), numbers_(shape), number_(rank) {}
  /// DataType is DLPack's `DLDataType`.
  template <class DataType, class = decltype(DataType::lanes)>
  Piece(DataType dtype)
      : kind_(Kind::dtype), text_(nullptr), numbers_(nullptr), number_(dtype.code * 1000 + dtype.bits) {}

  /// Append to `out` and give its new end; never past `end`.
  char* write(char* out, char* end) const {
    switch (kind_) {
      case Kind::text: return put(out, end, text_);
      case Kind::number: return put(out, end, number_);
      case Kind::dtype: return put_dtype(out, end);
      case Kind::shape: break;
    }
    out = put(out, end, "(");
    for (std::int64_t i = 0; i < number_; ++i) out = put(put(out, end, i ? ", " : ""), end, numbers_[i]);
    return put(out, end, number_ == 1 ? ",)" : ")");
  }

 private:
  enum class Kind { text, number, shape, dtype };

  static char* put(char* out, char* end, const char* text) {
    while (*text != '\0' && out < end) *out++ = *text++;
    return out;
  }
  static char* put(char* out, char* end, std::int64_t number) {
    char digits[21];
    char* first = digits + 20;
    *first = '\0';
    const bool negative = number < 0;
    std::uint64_t rest = negative ? -static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
    do *--first = static_cast<char>('0' + rest % 10);
    while ((rest /= 10) != 0);
    return put(negative ? put(out, end, "-") : out, end, first);
  }
  char* put_dtype(char* out, char* end) const {
    const std::int64_t code = number_ / 1000, bits = number_ % 1000;
    const char* name = "type code ";
    switch (static_cast<TypeCode>(code)) {
      case TypeCode::i: name = "i"; break;
      case TypeCode::u: name = "u"; break;
      case TypeCode::f: name = "f"; break;
      case TypeCode::bf: name = "bf"; break;
      case TypeCode::complex: name = "complex"; break;
      case TypeCode::boolean: return put(out, end, "bool");
      case TypeCode::fp8e4m3: return put(out, end, "fp8e4m3");
      case TypeCode::fp8e5m2: return put(out, end, "fp8e5m2");
      case TypeCode::f8e8m0: return put(out, end, "f8e8m0");
      case TypeCode::f4e2m1: return put(out, end, "f4e2m1");
      default: return put(put(put(put(put(out, end, name), end, code), end, " of "), end, bits), end, " bits");
    }
    return put(put(out, end, name), end, bits);
  }

  Kind kind_;
  const char* text_;
  std::int64_t const* numbers_;
  std::int64_t number_;
};

/// Raise `kind` in Python with the joined pieces as its text, cut at the capacity.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail(const char* kind, std::initializer_list<Piece> pieces) {
  Failure failure;
  failure.kind = kind;
  char *out = failure.message, *const end = failure.message + Failure::capacity - 1;
  for (Piece const& piece : pieces) out = piece.write(out, end);
  *out = '\0';
  throw failure;
}

[[noreturn, gnu::cold, gnu::noinline]] inline void fail(const char* kind, const char* message) {
  fail(kind, {Piece(message)});
}

}  // namespace host

/// The first index outside its extent that a kernel met. Written by any thread, read after the loops.
class IndexFault {
 public:
  /// `index` where it lies in [0, extent); else 0, and the index is recorded.
  std::int64_t bounded(std::int64_t index, std::int64_t extent) {
    if (static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(extent)) return index;
    if (!met_.exchange(true)) index_.store(index);
    return 0;
  }
  /// Throws when an index was recorded.
  void check(const char* op, std::int64_t extent) const {
    if (!met_.load()) return;
    host::fail("ValueError", {"tf.", op, ": the index ", index_.load(), " is outside the extent ", extent});
  }

 private:
  std::atomic<bool> met_{false};
  std::atomic<std::int64_t> index_{0};
};

}  // namespace tilefoundry

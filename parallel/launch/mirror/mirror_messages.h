// The frames by which one end keeps the other's folder equal to its own.
#pragma once

namespace ftune::mirror {

// From the end that sends: what to do, by its fact "op". Each is answered by a frame of kDone, in their
// order.
inline constexpr char kDo[] = "mirror";
inline constexpr char kClear[] = "clear";    // another run begins here: all that is there goes
inline constexpr char kBegin[] = "begin";    // unit: it will come
inline constexpr char kData[] = "data";      // file, at: bytes of it, one file after another
inline constexpr char kCommit[] = "commit";  // unit, files: all has come; it gets its name
inline constexpr char kDrop[] = "drop";      // what has come is of no use
inline constexpr char kRemove[] = "remove";  // unit
inline constexpr char kAppend[] = "append";  // unit, at, anew: bytes behind `at`; anew: the file begins anew

// From the end that receives. With `failed`, a unit, and `error`: it could not be written, and what still
// comes of it is passed over; of an appended file also `has`, up to where it has come.
inline constexpr char kDone[] = "mirrored";

}  // namespace ftune::mirror

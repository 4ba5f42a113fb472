// Frames to and from several others at once, by a thread of its own that also gives and awaits signs of life.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "base/descriptor.h"
#include "parallel/launch/frame.h"

namespace ftune {

struct LinkEvent {
  enum class Kind {
    kFrame,   // one has come
    kClosed,  // the other end has; nothing comes any more
    kSilent,  // nothing has come for the time-out: once, until something comes again
  };
  int link = 0;
  Kind kind = Kind::kFrame;
  Frame frame;
  std::string why;  // of kClosed
};

class FrameLinks {
 public:
  struct Options {
    absl::Duration interval = absl::Seconds(1);  // of signs of life
    absl::Duration timeout = absl::Seconds(30);  // without one, the other end is silent
  };

  explicit FrameLinks(const Options& options);
  ~FrameLinks();
  FrameLinks(const FrameLinks&) = delete;
  FrameLinks& operator=(const FrameLinks&) = delete;

  // A link that reads from one descriptor and writes to another, which may be the same; → its number.
  // `awaits_begin` as FrameReader's; `begins`: this end is the one that writes that line.
  int Add(Descriptor in, Descriptor out, bool awaits_begin, bool begins = false);
  // Returns at once; what cannot be sent is dropped with the link.
  void Send(int link, const Frame& frame);
  // Ends the link when what is waiting has been sent, or at once.
  void Close(int link, bool flush);
  // What has come since; never waits.
  std::vector<LinkEvent> Take();
  // Readable when there is something to take.
  int event_descriptor() const { return events_ready_.get(); }
  // While this process, or the other, is stopped on purpose nobody is silent.
  void Pause(bool paused);
  // Waits until all that is to be sent has been, or `timeout` has passed.
  void Flush(absl::Duration timeout);
  // What came over a link before its first frame.
  std::string Noise(int link);

 private:
  struct Link;
  void Run();
  void Step();
  void Read(Link& link);
  void Write(Link& link);
  void Tell(LinkEvent event);
  void Drop(Link& link, const std::string& why);

  Options options_;
  Descriptor wake_, events_ready_;
  std::mutex mutex_;
  std::condition_variable sent_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<LinkEvent> events_;
  bool paused_ = false;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace ftune

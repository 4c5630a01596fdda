#include "control/tell/answer/capture.h"

namespace weir::control {

void members(Fields& f, CaptureAnswer::Target& target) {
  f({"socket", "", "names the target"}, target.socket);
  f({"last_error", "", "why it gives no samples; empty: it does"}, target.last_error);
}

void members(Fields& f, CaptureAnswer::Settings& settings) {
  CaptureSettings& asked = settings.asked;
  f({"folder", "", "of the files"}, asked.folder);
  f({"one_in", "", "dropped frames of which one is a sample"}, asked.one_in);
  f({"per_list_per_second", "1/s", "samples of one list, at most"}, asked.per_list_per_second);
  f({"snap_bytes", "bytes", "of a frame that are kept"}, asked.snap_bytes);
  f({"filter", "", "as pcap-filter(7); empty: every frame"}, asked.filter);
  f({"file_bytes", "bytes", "after which the next file begins"}, asked.file_bytes);
  f({"file_age_s", "s", "after which the next file begins"}, asked.file_age_s);
  f({"files", "", "that are kept"}, asked.files);
  f({"current", "", "path of the file that is written; empty: none"}, settings.current);
  f.array({"targets", "", "that give samples"}, settings.targets, "capture target");
}

void members(Fields& f, CaptureAnswer& answer) {
  f({"on", "", "samples are fetched and written"}, answer.on);
  f({"last_error", "", "why nothing is written; empty: well"}, answer.last_error);
  f({"sampled", "frames", "chosen by the targets: the sum of the next six"}, answer.sampled);
  f({"written", "frames", "in files"}, answer.written);
  f({"filtered", "frames", "that the filter does not want"}, answer.filtered);
  f({"limited", "frames", "past per_list_per_second"}, answer.limited);
  f({"logged", "frames", "while no files are written: in memory, for who follows"}, answer.logged);
  f({"lost", "frames", "no place in a ring, lost on the way, or not to be written"}, answer.lost);
  f({"waiting", "frames", "in a ring, for their entry, or for the next write"}, answer.waiting);
  f.group("folder", answer.settings);
}

}  // namespace weir::control

// A run that is killed goes on where it stopped: the same batches come, none twice and none left out.
//
//   resume FOLDER      (which gets the checkpoint, and the list of the samples that were seen)
//
// A child process trains for a while and is killed in the middle of an epoch, as a machine that goes away
// does it. Another one reads the checkpoint and finishes. What both saw is what an undisturbed run sees.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "millrace/arrays.h"
#include "millrace/loader.h"

namespace {

constexpr int kEpochs = 3;

std::string text_of(const std::string& path) {
  std::ostringstream text;
  if (std::ifstream file(path); file) text << file.rdbuf();
  return text.str();
}

// There whole or not at all, whenever the process dies.
void save(const std::string& path, const std::string& text) {
  std::ofstream(path + ".part") << text << std::flush;
  if (std::rename((path + ".part").c_str(), path.c_str()) != 0)
    throw std::runtime_error(path + ": cannot be written");
}

// Goes on from the checkpoint, if there is one. It has the loader's state and what was learnt so far, which
// is the list of samples here and the weights of a network elsewhere; both in one file, so that they belong
// together. After `steps` batches the process kills itself; -1: it does not.
std::string train(const std::string& checkpoint, int steps) {
  std::vector<int64_t> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i * i);
  millrace::Loader loader(millrace::array_rows({millrace::array_of("square", values)}),
                          {.batch_size = 32, .shuffle = true, .threads = 2, .seed = 7});
  std::string learnt;
  if (const std::string saved = text_of(checkpoint); !saved.empty()) {
    const size_t line = saved.find('\n');
    loader.load_state(saved.substr(0, line));
    learnt = saved.substr(line + 1);
  }
  while (loader.epoch() < kEpochs) {
    for (const millrace::Batch& batch : loader) {
      for (const int64_t square : batch["square"].as<int64_t>()) learnt += std::to_string(square) + " ";
      if (!checkpoint.empty()) save(checkpoint, loader.state() + "\n" + learnt);
      if (steps >= 0 && steps-- == 0) std::raise(SIGKILL);
    }
  }
  return learnt;
}

}  // namespace

int main(int count, char** words) try {
  if (count != 2) throw std::runtime_error("usage: resume FOLDER");
  const std::string checkpoint = std::string(words[1]) + "/checkpoint";
  for (const int steps : {40, 30, -1}) {  // of 96 batches
    const pid_t child = fork();
    if (child == 0) {
      save(checkpoint + ".learnt", train(checkpoint, steps));
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::cout << (WIFSIGNALED(status) ? "killed" : "finished") << std::endl;
  }
  const bool same = text_of(checkpoint + ".learnt") == train("", -1);
  std::cout << (same ? "the same samples as without a kill" : "other samples than without a kill")
            << std::endl;
  return same ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "resume: " << error.what() << "\n";
  return 1;
}

// in_child: what holds in a forked child, and how calls are refused there.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>

#include "millrace/error.h"

namespace millrace {

// The address sanitizer does not take its allocator's locks for a fork() (seen in GCC 12's): a child that
// comes while another thread holds one waits for it for ever, in whatever it allocates. Such a child is
// followed by another one; what is ours hangs in all of them.
#if defined(__SANITIZE_ADDRESS__)
constexpr int kChildren = 3;
#else
constexpr int kChildren = 1;
#endif

// Whether `body` is true in a child that is forked now; its answer must come within 20 seconds.
inline bool in_child(const std::function<bool()>& body) {
  int status = 0;
  for (int i = 0; i < kChildren; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      _exit(body() ? 0 : 1);
    }
    if (waitpid(child, &status, 0) != child) return false;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM) break;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Whether `call` throws the error that calls in a forked child throw.
inline bool refuses_fork(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::unavailable &&
           std::string(error.what()).find("fork()") != std::string::npos;
  }
  return false;
}

}  // namespace millrace

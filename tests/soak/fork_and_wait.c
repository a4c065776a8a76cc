// Forks a child that calls no exec and waits to be killed, in a program whose runtime would not survive a fork.
#include <unistd.h>

int fork_and_wait(void) {
  int child = fork();
  while (child == 0) pause();
  return child;
}

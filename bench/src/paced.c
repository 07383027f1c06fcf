// One TCP connection at a rate: what a relay that shapes does to it, and what one that does not takes of the CPU for the same.
//
//   paced listen|connect PORT send RATE TICK      RATE bytes a second, what is due each TICK milliseconds; 0: as fast as it goes
//   paced listen|connect PORT receive SECONDS     so long from its first byte on
//
// Whoever receives prints one JSON object: bytes, seconds, and the least and the most of its whole seconds. A sender ends
// when the other side does. `listen` takes one connection after the other.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 256 << 10 };
static char piece[PIECE];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void rest_until(double moment) {
    struct timespec t = {(time_t)moment, (long)((moment - (double)(time_t)moment) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

static void send_paced(int fd, double rate, double tick) {
    double began = now(), sent = 0;
    for (long turn = 1;; turn++) {
        double due = rate > 0 ? rate * tick * (double)turn : sent + PIECE;
        while (sent < due) {
            double left = due - sent;
            ssize_t n = send(fd, piece, left < PIECE ? (size_t)left + 1 : PIECE, MSG_NOSIGNAL);
            if (n <= 0) return;
            sent += (double)n;
        }
        // Who was held up makes up for nothing: the rate is that of an even sender.
        if (rate > 0 && began + tick * (double)turn > now()) rest_until(began + tick * (double)turn);
    }
}

static void receive(int fd, double seconds) {
    double began = 0, t = 0, bytes = 0, of_second = 0, least = 1e300, most = 0;
    int whole = 0;
    for (;;) {
        // MSG_TRUNC: the kernel throws the bytes away, so that the measuring side is no limit.
        ssize_t n = recv(fd, NULL, 8 << 20, MSG_TRUNC);
        if (n <= 0) break;
        t = now();
        if (!began) began = t;
        if (t - began >= whole + 1) {
            if (of_second < least) least = of_second;
            if (of_second > most) most = of_second;
            of_second = 0;
            whole = (int)(t - began);
        }
        if (t - began >= seconds) break;
        bytes += (double)n;
        of_second += (double)n;
    }
    double lasted = t - began < seconds ? t - began : seconds;
    printf("{\"bytes\":%.0f,\"seconds\":%.6f,\"least\":%.0f,\"most\":%.0f}\n", bytes, lasted, whole ? least : 0, most);
    fflush(stdout);
}

int main(int argc, char **argv) {
    int sends = argc == 6 && !strcmp(argv[3], "send"), listens = argc > 1 && !strcmp(argv[1], "listen"), one = 1;
    if (!sends && !(argc == 5 && !strcmp(argv[3], "receive"))) {
        fprintf(stderr, "paced: see the head of paced.c\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listens) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 16)) { perror("paced: listen"); return 1; }
    } else if (connect(fd, (struct sockaddr *)&address, sizeof address)) {
        perror("paced: connect");
        return 1;
    }
    do {
        int peer = listens ? accept(fd, NULL, NULL) : fd;
        if (peer < 0) continue;
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (sends) send_paced(peer, atof(argv[4]), atof(argv[5]) / 1e3);
        else receive(peer, atof(argv[4]));
        close(peer);
    } while (listens);
    return 0;
}

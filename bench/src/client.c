// The client beside wrk: many connections from one thread, TLS or plain, where wrk has no answer: a connection per
// request with a full handshake, thousands at once, idle ones, a fixed rate, one gigabyte, a server that stops.
//
// Every answer's status, length and (unless --discard) every byte is checked. A failure is counted by its kind, and a
// connection that was refused because nobody listens any more is not the same as one that was accepted and lost.
//
//   --port P | --unix PATH   whom to ask                       --connections N  how many at once (1)
//   --host A                 where that port is (127.0.0.1)
//   --get N | --post N       the request; --path P overrides   --requests K     on each connection, 0 = no end (0)
//   --tls any|1.2|1.3|off    (any)                             --close          the request says Connection: close
//   --tunnel HOST:PORT       whoever listens there is a proxy: CONNECT to this first; TLS is with the proxy
//   --seconds D              no new request after that (5)     --timeout S      for a connection or an answer (10)
//   --hold MS                stay silent so long before closing
//   --once                   every connection is made once; ends when all are done
//   --stay                   keep all answered connections open until standard input ends; prints "ready" before
//   --opening N              at most so many connect at the same time (no limit)
//   --rate R                 open loop: R requests a second, latency from the time each was due
//   --until-refused          a refused connection ends its slot: the server has gone, which is not a failure
//   --discard                the body is thrown away by the kernel (plain TCP only)
//   --pieces N               each request in N writes, the head by itself, with Nagle's algorithm on: the 40 ms test
//
// Prints one JSON object. Latencies are in milliseconds, from the connect for a connection's first request; "stalled"
// counts those of 35 ms and more.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "pattern.h"

enum { HEAD = 4096, READ = 256 << 10, CERTIFICATES = 8 };
static const float STALL = 35; // milliseconds: the shortest delayed ACK is 40

enum step { CLOSED, CONNECTING, HANDSHAKING, TUNNELING, READY, SENDING, RECEIVING, HOLDING, FINISHED };
enum failure { REFUSED, NO_PORT, CONNECT, HANDSHAKE, TUNNEL, RESET, CUT, STATUS, LENGTH, CONTENT, TIMEOUT, FAILURES };
static const char *const failure_names[] = {"refused", "no_port", "connect", "handshake", "tunnel", "reset", "cut", "status", "length", "content", "timeout"};

struct slot {
    int fd;
    enum step step;
    bool wants_out;
    SSL *ssl;
    double began, deadline, hold_until;
    size_t sent, got, head_len, length;
    bool head_seen, peer_closes, chunked;
    char tail[5];                   // of a chunked body: its end is seen there
    long answered;
    char head[HEAD];
};

static struct {
    int port, connections, opening, pieces;
    const char *host, *unix_path, *path, *tls, *tunnel;
    size_t get, post;
    bool is_post, close, once, stay, until_refused, discard;
    long requests;
    double seconds, timeout, hold, rate;
} want = {.host = "127.0.0.1", .connections = 1, .tls = "any", .seconds = 5, .timeout = 10};

static struct {
    long requests, connections, failed[FAILURES], lost;
    unsigned long long bytes_in, bytes_out;
    int open, opening, peak, live;
    char tls[128];
    struct { char serial[48]; long seen; } certificates[CERTIFICATES];
} seen;

static struct slot *slots;
static int *idle, idle_count, poller, cursor;
static SSL_CTX *tls;
static struct sockaddr_storage address;
static socklen_t address_len;
static char request[512], connect_head[512], scratch[READ];
static size_t request_len, connect_len;
static float *latencies;
static size_t latency_count, latency_room;
static double started, last_answer;
static bool stopping;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void note_latency(double ms) {
    if (latency_count == latency_room) {
        latency_room = latency_room * 2 + 4096;
        latencies = realloc(latencies, latency_room * sizeof *latencies);
        if (!latencies) abort();
    }
    latencies[latency_count++] = (float)ms;
}

static void note_handshake(struct slot *s) {
    if (!seen.tls[0]) {
        const char *group = SSL_group_to_name(s->ssl, (int)SSL_get_negotiated_group(s->ssl));
        snprintf(seen.tls, sizeof seen.tls, "%s %s %s", SSL_get_version(s->ssl), SSL_get_cipher(s->ssl), group ? group : "");
    }
    X509 *certificate = SSL_get0_peer_certificate(s->ssl);
    const ASN1_INTEGER *number = certificate ? X509_get0_serialNumber(certificate) : NULL;
    if (!number) return;
    char serial[48] = "";
    for (int n = 0; n < number->length && n < 20; n++) snprintf(serial + 2 * n, 3, "%02x", number->data[n]);
    for (int n = 0; n < CERTIFICATES; n++) {
        if (seen.certificates[n].seen && strcmp(seen.certificates[n].serial, serial)) continue;
        memcpy(seen.certificates[n].serial, serial, sizeof serial);
        seen.certificates[n].seen++;
        return;
    }
}

static void watch(struct slot *s, bool out) {
    if (s->wants_out == out) return;
    s->wants_out = out;
    struct epoll_event e = {.events = out ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = s};
    epoll_ctl(poller, EPOLL_CTL_MOD, s->fd, &e);
}

static void hang_up(struct slot *s, enum step next) {
    if (s->step >= CONNECTING && s->step <= TUNNELING) seen.opening--;
    else if (s->step != CLOSED && s->step != FINISHED) seen.open--;
    if (s->ssl) {
        if (s->step > HANDSHAKING) SSL_shutdown(s->ssl);
        SSL_free(s->ssl);
        s->ssl = NULL;
        ERR_clear_error();
    }
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
    s->step = next;
    if (next == FINISHED) seen.live--;
}

static void fail(struct slot *s, enum failure kind) {
    seen.failed[kind]++;
    bool gone = want.until_refused && kind == REFUSED;
    hang_up(s, want.once || gone ? FINISHED : CLOSED);
}

static void begin_request(struct slot *s, double due) {
    s->step = SENDING;
    s->sent = s->got = s->head_len = s->length = 0;
    s->head_seen = s->peer_closes = false;
    s->began = due;
    s->deadline = now() + want.timeout;
}

static ssize_t put(struct slot *s, const void *data, size_t len) {
    return s->ssl ? SSL_write(s->ssl, data, (int)len) : send(s->fd, data, len, MSG_NOSIGNAL);
}

static ssize_t take(struct slot *s, void *data, size_t len, bool discard) {
    return s->ssl ? SSL_read(s->ssl, data, (int)len) : recv(s->fd, data, len, discard ? MSG_TRUNC : 0);
}

enum again { WAIT_IN, WAIT_OUT, ENDED, BROKEN };

static enum again why(struct slot *s, ssize_t result) {
    if (s->ssl) {
        switch (SSL_get_error(s->ssl, (int)result)) {
        case SSL_ERROR_WANT_READ: return WAIT_IN;
        case SSL_ERROR_WANT_WRITE: return WAIT_OUT;
        case SSL_ERROR_ZERO_RETURN: return ENDED;
        default: return BROKEN;
        }
    }
    if (result == 0) return ENDED;
    return errno == EAGAIN ? WAIT_IN : BROKEN;
}

static void settle(struct slot *s) { // after a whole answer: the next request, a pause, or the end of the connection
    double t = now();
    seen.requests++;
    s->answered++;
    note_latency((t - s->began) * 1e3);
    last_answer = t;
    if (want.stay) {
        s->step = HOLDING;
        s->hold_until = s->deadline = 1e300;
    } else if (s->peer_closes || want.close || (want.requests && s->answered >= want.requests)) {
        if (want.hold > 0) {
            s->step = HOLDING;
            s->hold_until = t + want.hold;
            s->deadline = 1e300;
        } else {
            hang_up(s, want.once ? FINISHED : CLOSED);
        }
    } else if (want.rate > 0) {
        s->step = READY;
        idle[idle_count++] = (int)(s - slots);
    } else if (stopping) {
        hang_up(s, FINISHED);
    } else {
        begin_request(s, t);
    }
}

static bool sending(struct slot *s) {
    size_t body = want.is_post ? want.post : 0;
    while (s->sent < request_len + body) {
        const char *from = request + s->sent;
        size_t len = request_len - s->sent;
        if (s->sent >= request_len) {
            size_t at = s->sent - request_len;
            from = pattern + at % PATTERN;
            len = pattern_piece(at, body - at);
            size_t each = want.pieces > 1 ? (body + (size_t)want.pieces - 2) / ((size_t)want.pieces - 1) : body;
            if (len > each - at % each) len = each - at % each;
        }
        ssize_t n = put(s, from, len);
        if (n <= 0) {
            enum again a = n < 0 && !s->ssl && errno == EAGAIN ? WAIT_OUT : why(s, n);
            if (a == WAIT_IN || a == WAIT_OUT) { watch(s, a == WAIT_OUT); return false; }
            fail(s, RESET);
            return false;
        }
        s->sent += (size_t)n;
        seen.bytes_out += (size_t)n;
        s->deadline = now() + want.timeout;
    }
    watch(s, false);
    s->step = RECEIVING;
    return true;
}

// Reads the answer's head out of s->head; false when it is no good.
static bool parse_head(struct slot *s) {
    if (strncmp(s->head, "HTTP/1.1 200", 12)) { fail(s, STATUS); return false; }
    const char *length = strcasestr(s->head, "\r\ncontent-length:");
    s->length = length ? strtoull(length + 17, NULL, 10) : SIZE_MAX;
    s->peer_closes = strcasestr(s->head, "\r\nconnection: close") != NULL;
    s->chunked = strcasestr(s->head, "\r\ntransfer-encoding: chunked") != NULL;
    bool sink = want.path && !strcmp(want.path, "/sink");
    if (!sink && !s->chunked && s->length != (want.is_post ? want.post : want.get)) { fail(s, LENGTH); return false; }
    return true;
}

static bool body_is_right(struct slot *s, const char *data, size_t len) {
    if (want.path || s->chunked) return true;
    for (size_t at = s->got; len;) {
        size_t piece = pattern_piece(at, len);
        if (memcmp(data, pattern + at % PATTERN, piece)) return false;
        at += piece, data += piece, len -= piece;
    }
    return true;
}

// Has the whole body been seen? A chunked one is only known to be whole, its length is not checked: wrk's script does that.
static bool body_ends(struct slot *s, const char *data, size_t len) {
    s->got += len;
    if (!s->chunked) return s->got == s->length;
    for (size_t n = len > 5 ? len - 5 : 0; n < len; n++) {
        memmove(s->tail, s->tail + 1, 4);
        s->tail[4] = data[n];
    }
    return s->got >= 5 && !memcmp(s->tail, "0\r\n\r\n", 5);
}

static void receiving(struct slot *s) {
    for (;;) {
        bool discard = want.discard && s->head_seen;
        char *into = s->head_seen ? scratch : s->head + s->head_len;
        size_t room = s->head_seen ? READ : HEAD - 1 - s->head_len;
        if (discard) room = 8 << 20;
        ssize_t n = take(s, into, room, discard);
        if (n <= 0) {
            enum again a = why(s, n);
            if (a == WAIT_IN || a == WAIT_OUT) { watch(s, a == WAIT_OUT); return; }
            fail(s, a == ENDED ? CUT : RESET);
            return;
        }
        seen.bytes_in += (size_t)n;
        s->deadline = now() + want.timeout;
        const char *body = scratch;
        size_t len = (size_t)n;
        if (!s->head_seen) {
            s->head_len += len;
            s->head[s->head_len] = 0;
            char *end = strstr(s->head, "\r\n\r\n");
            if (!end) {
                if (s->head_len == HEAD - 1) { fail(s, STATUS); return; }
                continue;
            }
            s->head_seen = true;
            body = end + 4;
            len = s->head_len - (size_t)(body - s->head);
            *end = 0;
            if (!parse_head(s)) return;
        }
        if (s->got + len > s->length) { fail(s, LENGTH); return; }
        if (!discard && !body_is_right(s, body, len)) { fail(s, CONTENT); return; }
        if (body_ends(s, body, len)) { settle(s); return; }
    }
}

static void established(struct slot *s) {
    seen.opening--;
    seen.connections++;
    if (++seen.open > seen.peak) seen.peak = seen.open;
    watch(s, false);
    s->step = READY;
    if (want.rate > 0) idle[idle_count++] = (int)(s - slots);
    else begin_request(s, s->began);
}

// The proxy's answer to CONNECT ends with its head: nothing else may come before we have asked for something.
static void tunneling(struct slot *s) {
    while (s->sent < connect_len) {
        ssize_t n = put(s, connect_head + s->sent, connect_len - s->sent);
        if (n <= 0) {
            enum again a = n < 0 && !s->ssl && errno == EAGAIN ? WAIT_OUT : why(s, n);
            if (a == WAIT_IN || a == WAIT_OUT) watch(s, a == WAIT_OUT);
            else fail(s, TUNNEL);
            return;
        }
        s->sent += (size_t)n;
    }
    for (;;) {
        ssize_t n = take(s, s->head + s->head_len, HEAD - 1 - s->head_len, false);
        if (n <= 0) {
            enum again a = s->head_len == HEAD - 1 ? BROKEN : why(s, n);
            if (a == WAIT_IN || a == WAIT_OUT) watch(s, a == WAIT_OUT);
            else fail(s, TUNNEL);
            return;
        }
        s->head[s->head_len += (size_t)n] = 0;
        const char *end = strstr(s->head, "\r\n\r\n");
        if (!end) continue;
        bool good = (!strncmp(s->head, "HTTP/1.1 2", 10) || !strncmp(s->head, "HTTP/1.0 2", 10)) && end + 4 == s->head + s->head_len;
        if (good) established(s);
        else fail(s, TUNNEL);
        return;
    }
}

static void secured(struct slot *s) { // or plain: what is below the first request's bytes is up
    if (s->ssl) note_handshake(s);
    if (!want.tunnel) { established(s); return; }
    s->step = TUNNELING;
    s->sent = s->head_len = 0;
    watch(s, false);
    tunneling(s);
}

static void handshaking(struct slot *s) {
    int n = SSL_connect(s->ssl);
    if (n == 1) { secured(s); return; }
    enum again a = why(s, n);
    if (a == WAIT_IN || a == WAIT_OUT) watch(s, a == WAIT_OUT);
    else fail(s, HANDSHAKE);
}

static void connected(struct slot *s) {
    int error = 0;
    socklen_t len = sizeof error;
    getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error) { fail(s, error == ECONNREFUSED ? REFUSED : CONNECT); return; }
    if (!tls) { secured(s); return; }
    s->ssl = SSL_new(tls);
    SSL_set_fd(s->ssl, s->fd);
    SSL_set_tlsext_host_name(s->ssl, "localhost");
    s->step = HANDSHAKING;
    handshaking(s);
}

static void dial(struct slot *s) {
    int one = 1;
    s->fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0) { perror("client: socket"); exit(1); }
    if (address.ss_family == AF_INET && !want.pieces) setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    s->step = CONNECTING;
    s->wants_out = true;
    s->answered = 0;
    s->began = now();
    s->deadline = s->began + want.timeout;
    seen.opening++;
    if (connect(s->fd, (struct sockaddr *)&address, address_len) && errno != EINPROGRESS) {
        fail(s, errno == ECONNREFUSED ? REFUSED : errno == EADDRNOTAVAIL ? NO_PORT : CONNECT);
        return;
    }
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = s};
    epoll_ctl(poller, EPOLL_CTL_ADD, s->fd, &e);
}

static void event(struct slot *s) {
    if (s->step == CONNECTING) connected(s);
    else if (s->step == HANDSHAKING) handshaking(s);
    else if (s->step == TUNNELING) tunneling(s);
    if (s->step == READY || s->step == HOLDING) { // nothing is due from the peer but tickets, or its end
        ssize_t n = take(s, scratch, READ, false);
        if (n > 0) { fail(s, CONTENT); return; }
        enum again a = why(s, n);
        if (a == WAIT_IN || a == WAIT_OUT) return;
        bool was_ready = s->step == READY;
        seen.lost++;
        if (was_ready) for (int i = 0; i < idle_count; i++) if (idle[i] == s - slots) { idle[i] = idle[--idle_count]; break; }
        hang_up(s, want.once ? FINISHED : CLOSED);
        return;
    }
    if (s->step == RECEIVING) receiving(s);
    while (s->step == SENDING && sending(s)) receiving(s);
}

static void start_due(double t, double begin, long *issued) {
    while (idle_count && begin + (double)*issued / want.rate <= t) {
        struct slot *s = &slots[idle[--idle_count]];
        begin_request(s, begin + (double)(*issued)++ / want.rate);
        event(s);
    }
}

static void look_at_clocks(double t) { // every slot, ten times a second
    for (int i = 0; i < want.connections; i++) {
        struct slot *s = &slots[i];
        if (s->step == HOLDING && t >= s->hold_until) hang_up(s, want.once ? FINISHED : CLOSED);
        else if (s->step != CLOSED && s->step != FINISHED && s->step != READY && s->step != HOLDING && t > s->deadline && !want.stay) fail(s, TIMEOUT);
    }
}

static void open_some(void) {
    for (int n = 0; n < want.connections; n++) {
        if (want.opening && seen.opening >= want.opening) return;
        struct slot *s = &slots[cursor];
        if (++cursor == want.connections) cursor = 0;
        if (s->step != CLOSED) continue;
        if (stopping) { hang_up(s, FINISHED); continue; }
        dial(s);
    }
}

static int compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double percentile(double p) {
    return latency_count ? (double)latencies[(size_t)((double)(latency_count - 1) * p)] : 0;
}

static size_t slower_than(float ms) { // in what is sorted
    size_t n = latency_count;
    while (n && latencies[n - 1] >= ms) n--;
    return latency_count - n;
}

static void report(double seconds) {
    if (latency_count) qsort(latencies, latency_count, sizeof *latencies, compare);
    printf("{\"requests\":%ld,\"connections\":%ld,\"seconds\":%.6f,\"bytes_in\":%llu,\"bytes_out\":%llu,\"peak\":%d,\"waiting\":%d,\"lost\":%ld,\"tls\":\"%s\",",
           seen.requests, seen.connections, seconds, seen.bytes_in, seen.bytes_out, seen.peak, seen.opening, seen.lost, seen.tls);
    printf("\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,\"p999\":%.3f,\"max\":%.3f,\"stalled\":%zu,\"failed\":{",
           percentile(.5), percentile(.9), percentile(.99), percentile(.999), percentile(1), slower_than(STALL));
    for (int n = 0; n < FAILURES; n++) printf("%s\"%s\":%ld", n ? "," : "", failure_names[n], seen.failed[n]);
    printf("},\"certificates\":{");
    for (int n = 0; n < CERTIFICATES && seen.certificates[n].seen; n++) printf("%s\"%s\":%ld", n ? "," : "", seen.certificates[n].serial, seen.certificates[n].seen);
    printf("}}\n");
}

static void usage(const char *what) {
    fprintf(stderr, "client: %s: see the head of client.c\n", what);
    exit(2);
}

static void read_options(int argc, char **argv) {
    for (int n = 1; n < argc; n++) {
        const char *key = argv[n];
        if (!strcmp(key, "--close")) want.close = true;
        else if (!strcmp(key, "--once")) want.once = true;
        else if (!strcmp(key, "--stay")) want.stay = want.once = true;
        else if (!strcmp(key, "--until-refused")) want.until_refused = true;
        else if (!strcmp(key, "--discard")) want.discard = true;
        else if (++n == argc) usage(key);
        else if (!strcmp(key, "--host")) want.host = argv[n];
        else if (!strcmp(key, "--port")) want.port = atoi(argv[n]);
        else if (!strcmp(key, "--unix")) want.unix_path = argv[n];
        else if (!strcmp(key, "--connections")) want.connections = atoi(argv[n]);
        else if (!strcmp(key, "--opening")) want.opening = atoi(argv[n]);
        else if (!strcmp(key, "--requests")) want.requests = atol(argv[n]);
        else if (!strcmp(key, "--get")) want.get = strtoull(argv[n], NULL, 10);
        else if (!strcmp(key, "--post")) want.is_post = true, want.post = strtoull(argv[n], NULL, 10);
        else if (!strcmp(key, "--path")) want.path = argv[n];
        else if (!strcmp(key, "--tls")) want.tls = argv[n];
        else if (!strcmp(key, "--tunnel")) want.tunnel = argv[n];
        else if (!strcmp(key, "--seconds")) want.seconds = atof(argv[n]);
        else if (!strcmp(key, "--timeout")) want.timeout = atof(argv[n]);
        else if (!strcmp(key, "--hold")) want.hold = atof(argv[n]) / 1e3;
        else if (!strcmp(key, "--rate")) want.rate = atof(argv[n]);
        else if (!strcmp(key, "--pieces")) want.pieces = atoi(argv[n]);
        else usage(key);
    }
    if (want.once && !want.requests) want.requests = 1;
    if (!want.port == !want.unix_path || want.connections < 1) usage("--port or --unix");
}

static void prepare(void) {
    char path[64];
    snprintf(path, sizeof path, "/%zu", want.get);
    if (want.is_post) snprintf(path, sizeof path, "/");
    request_len = (size_t)snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: localhost\r\n", want.is_post ? "POST" : "GET", want.path ? want.path : path);
    if (want.is_post) request_len += (size_t)snprintf(request + request_len, sizeof request - request_len, "Content-Length: %zu\r\n", want.post);
    request_len += (size_t)snprintf(request + request_len, sizeof request - request_len, "%s\r\n", want.close ? "Connection: close\r\n" : "");
    if (want.tunnel) connect_len = (size_t)snprintf(connect_head, sizeof connect_head, "CONNECT %.200s HTTP/1.1\r\nHost: %.200s\r\n\r\n", want.tunnel, want.tunnel);
    if (want.unix_path) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        snprintf(a.sun_path, sizeof a.sun_path, "%s", want.unix_path);
        memcpy(&address, &a, address_len = sizeof a);
    } else {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)want.port), .sin_addr.s_addr = inet_addr(want.host)};
        memcpy(&address, &a, address_len = sizeof a);
    }
    slots = calloc((size_t)want.connections, sizeof *slots);
    idle = calloc((size_t)want.connections, sizeof *idle);
    if (!slots || !idle) abort();
    for (int i = 0; i < want.connections; i++) slots[i].fd = -1;
    seen.live = want.connections;
    if (!strcmp(want.tls, "off")) return;
    tls = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_verify(tls, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    int version = !strcmp(want.tls, "1.2") ? TLS1_2_VERSION : !strcmp(want.tls, "1.3") ? TLS1_3_VERSION : 0;
    SSL_CTX_set_min_proto_version(tls, version);
    SSL_CTX_set_max_proto_version(tls, version);
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1);
    pattern_fill();
    prepare();
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (want.stay) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, 0, &e)) { perror("client: --stay needs a pipe as standard input"); return 1; }
    }
    started = now();
    double rate_from = 0, looked = started, end = started + want.seconds;
    long issued = 0;
    bool said_ready = false, released = false;
    struct epoll_event events[512];
    while (seen.live && !released) {
        double t = now();
        stopping = !want.stay && !want.once && t >= end;
        if (seen.opening + seen.open < seen.live) open_some();
        if (want.rate > 0 && !rate_from && idle_count == want.connections) { rate_from = now(); end = rate_from + want.seconds; }
        if (rate_from && !stopping) start_due(t, rate_from, &issued);
        if (stopping && want.rate > 0) while (idle_count) hang_up(&slots[idle[--idle_count]], FINISHED);
        if (t - looked > 0.02) { look_at_clocks(t); looked = t; }
        if (want.stay && !said_ready && !seen.opening && seen.requests + seen.failed[REFUSED] >= want.connections) { puts("ready"); fflush(stdout); said_ready = true; }
        double wait = 0.02;
        if (rate_from && idle_count) wait = rate_from + (double)issued / want.rate - now();
        if (wait < 0) wait = 0;
        if (wait > 0.02) wait = 0.02;
        struct timespec ts = {0, (long)(wait * 1e9)};
        int n = epoll_pwait2(poller, events, 512, &ts, NULL);
        for (int i = 0; i < n; i++) {
            struct slot *s = events[i].data.ptr;
            if (!s) { released = read(0, scratch, READ) <= 0; continue; }
            if (s->fd >= 0) event(s);
        }
    }
    report((last_answer ? last_answer : now()) - (rate_from ? rate_from : started));
    return 0;
}

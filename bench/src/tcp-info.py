"""An origin that asks the kernel what came and went: HTTP/1.1 with an answer of fixed length, one thread a connection.

    python3 tcp-info.py BYTES   says its port; at the end of its input the sums of TCP_INFO over its closed connections
"""
import json
import socket
import struct
import sys
import threading

BODY = b"x" * int(sys.argv[1])
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
# struct tcp_info of linux/tcp.h: where tcpi_bytes_acked and tcpi_bytes_received are.
ACKED, RECEIVED = 120, 128

sums = {"connections": 0, "requests": 0, "received": 0, "sent": 0}
lock = threading.Lock()
threads = []


def serve(client):
    requests, waiting = 0, b""
    while True:
        more = client.recv(65536)
        if not more:
            break
        waiting += more
        while b"\r\n\r\n" in waiting:
            waiting = waiting.split(b"\r\n\r\n", 1)[1]
            requests += 1
            client.sendall(ANSWER)
    info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    client.close()
    with lock:
        sums["connections"] += 1
        sums["requests"] += requests
        # The peer's FIN takes a number of its own; what we sent has all been acknowledged, for the peer ended after it.
        sums["received"] += struct.unpack_from("Q", info, RECEIVED)[0]
        sums["sent"] += struct.unpack_from("Q", info, ACKED)[0]


server = socket.create_server(("127.0.0.1", 0), backlog=4096)
print(server.getsockname()[1], flush=True)


def accept():
    while True:
        threads.append(threading.Thread(target=serve, args=(server.accept()[0],)))
        threads[-1].start()


threading.Thread(target=accept, daemon=True).start()
sys.stdin.read()
# Who was connected has gone by now: what is left is to hear that from the kernel.
for thread in threads:
    thread.join()
print(json.dumps(sums), flush=True)

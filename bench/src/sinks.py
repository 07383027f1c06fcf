"""Sinks of figures and spans that read all they get, never read, or read a byte a second.

    python3 sinks.py read|silent|slow   says its ports as a line of JSON: TCP, HTTP (InfluxDB and OTLP) and UDP
"""
import json
import socket
import sys
import threading
import time

held = []  # connections of which nothing is read


def reads(client):
    while client.recv(65536):
        pass


def answers(client):
    """HTTP/1.1 with bodies of announced lengths, one request after the other."""
    waiting = b""
    while True:
        while b"\r\n\r\n" not in waiting:
            more = client.recv(65536)
            if not more:
                return
            waiting += more
        head, _, waiting = waiting.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
        left = int(fields.get(b"content-length", 0))
        while len(waiting) < left:
            more = client.recv(65536)
            if not more:
                return
            waiting += more
        waiting = waiting[left:]
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def slowly(client):
    while client.recv(1):
        time.sleep(1)


def serve(how, client):
    try:
        how(client)
    except OSError:
        pass
    client.close()


def accept(listener, how):
    while True:
        client, _ = listener.accept()
        if how:
            threading.Thread(target=serve, args=(how, client), daemon=True).start()
        else:
            held.append(client)


def receive(datagrams, how):
    while True:
        datagrams.recv(65536)
        if how is slowly:
            time.sleep(1)


def main():
    how = {"read": reads, "silent": None, "slow": slowly}[sys.argv[1]]
    ports = []
    for of_it in (how, answers if how is reads else how):
        listener = socket.socket()
        if how is not reads:
            # Little room in the kernel, the sender's too, which goes by the size of segments: that a sink reads nothing is felt soon.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        ports.append(listener.getsockname()[1])
        threading.Thread(target=accept, args=(listener, of_it), daemon=True).start()
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    ports.append(datagrams.getsockname()[1])
    if how:
        threading.Thread(target=receive, args=(datagrams, how), daemon=True).start()
    print(json.dumps(ports), flush=True)
    threading.Event().wait()


main()

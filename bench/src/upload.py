"""The tus client of the upload table: sends a stretch of a made-up file in PATCH requests and can be killed at any byte.

upload.py PORT HOST USER:PASSWORD URL-PATH SIZE CHUNK PAUSE…

At each offset PAUSE it says "at OFFSET" and waits for a line on its input; at the end "end OFFSET STATUS".
Without URL-PATH ("-") it creates the upload first and says "location LOCATION".
"""
import base64
import http.client
import ssl
import sys

from pattern import block, BLOCK


def main():
    port, host, user, path, size, chunk, *pauses = sys.argv[1:]
    port, size, chunk, pauses = int(port), int(size), int(chunk), [int(p) for p in pauses]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
    common = {"Host": f"{host}:{port}", "Tus-Resumable": "1.0.0", "Authorization": "Basic " + base64.b64encode(user.encode()).decode()}

    def ask(method, target, **fields):
        connection.request(method, target, headers=common | {name.replace("_", "-"): str(value) for name, value in fields.items()})
        answer = connection.getresponse()
        answer.read()
        return answer

    if path == "-":
        answer = ask("POST", "/files", Upload_Length=size, Content_Length=0)
        location = answer.headers.get("Location", f"none, status {answer.status}")
        say(f"location {location}")
        path = "/" + location.split("/", 3)[3] if "://" in location else location
    answer = ask("HEAD", path)
    if answer.status != 200:
        return say(f"end 0 {answer.status}")
    offset = int(answer.headers["Upload-Offset"])
    say(f"from {offset}")
    while offset < size:
        until = min(size, offset + chunk)
        connection.putrequest("PATCH", path, skip_host=True, skip_accept_encoding=True)
        for name, value in (common | {"Content-Type": "application/offset+octet-stream", "Upload-Offset": str(offset), "Content-Length": str(until - offset)}).items():
            connection.putheader(name, value)
        connection.endheaders()
        while offset < until:
            number, skip = divmod(offset, BLOCK)
            piece = block(number)[skip:skip + until - offset]
            connection.send(piece)
            offset += len(piece)
            while pauses and pauses[0] <= offset:
                pauses.pop(0)
                say(f"at {offset}")
                sys.stdin.readline()
        answer = connection.getresponse()
        answer.read()
        if answer.status != 204 or int(answer.headers.get("Upload-Offset", -1)) != offset:
            return say(f"end {offset} {answer.status}")
    say(f"end {offset} 204")


def say(text):
    print(text, flush=True)


main()

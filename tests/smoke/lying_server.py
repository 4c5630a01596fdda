"""A web server that answers as the test says, true or not. Standard library only."""

import contextlib
import gzip
import http.server
import socket
import threading
import zlib


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.server.says(self)

    def log_message(self, *_):
        pass

    def head(self, status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Connection", "close")
        self.end_headers()

    def raw(self, data):
        self.wfile.write(data)
        self.wfile.flush()

    def is_gone(self, seconds=60):
        """Whether the client closes the connection within so long."""
        self.connection.settimeout(seconds)
        try:
            return self.connection.recv(1) == b""
        except TimeoutError:
            return False


class LyingServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address="127.0.0.1"):
        super().__init__((address, 0), Handler)
        self.port = self.server_address[1]
        self.url = f"http://{address}:{self.port}"
        self.asked = []  # (path, headers) of each request
        self.says = None  # a function of the handler: it answers
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass


def whole(text, **headers):
    def says(handler):
        handler.head(Content_Length=len(text), **headers)
        handler.raw(text)
    return says


def status(number, **headers):
    def says(handler):
        handler.head(number, Content_Length=6, **headers)
        handler.raw(b"sorry\n")
    return says


def cut_off(text):
    """It promises the whole text, and ends in the middle."""
    def says(handler):
        handler.head(Content_Length=len(text))
        handler.raw(text[: len(text) // 2])
    return says


def cut_chunks(text):
    def says(handler):
        handler.head(Transfer_Encoding="chunked")
        handler.raw(b"%x\r\n%s\r\n" % (len(text) // 2, text[: len(text) // 2]))
    return says


def stalls(text):
    def says(handler):
        handler.head(Content_Length=len(text))
        handler.raw(text[: len(text) // 2])
        handler.is_gone()
    return says


def silent(handler):
    handler.is_gone()


def drips(handler):
    handler.head()
    handler.raw(b"1")
    while not handler.is_gone(0.1):
        handler.raw(b"1")


def redirects(to, number=302):
    def says(handler):
        handler.head(number, Location=to, Content_Length=0)
    return says


def bomb():
    """100 MiB of lines in 100 KiB. They are packed here: a client would give up meanwhile."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(packer.compress(b"192.0.2.1\n" * 100_000) for _ in range(105)) + packer.flush()
    return whole(data, Content_Encoding="gzip")


def endless(handler):
    handler.head()
    while True:
        handler.raw(b"192.0.2.1\n" * 1000)


def huge_promise(handler):
    handler.head(Content_Length=10 << 40)
    handler.raw(b"192.0.2.1\n")


def half_gzip(text):
    packed = gzip.compress(text)

    def says(handler):
        handler.head(Content_Encoding="gzip")
        handler.raw(packed[: len(packed) // 2])
    return says


def endless_header(handler):
    handler.raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        handler.raw(b"X-More: " + b"x" * 1000 + b"\r\n")


def no_http(handler):
    handler.raw(b"192.0.2.1\n192.0.2.2\n")


def resets(handler):
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    handler.connection.close()

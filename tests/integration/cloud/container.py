"""Makes a container in Azurite: python container.py URL NAME

The request is signed with the key that every Azurite has, as
https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key says.
"""

import base64
import email.utils
import hashlib
import hmac
import sys
import urllib.request

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2021-08-06"


def main(url, name):
    date = email.utils.formatdate(usegmt=True)
    resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{VERSION}\n{resource}"
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": VERSION,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
        "Content-Length": "0",
    }
    address = f"{url}/{ACCOUNT}/{name}?restype=container"
    request = urllib.request.Request(address, method="PUT", headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request) as answer:
        assert answer.status == 201, answer.status


if __name__ == "__main__":
    main(*sys.argv[1:])

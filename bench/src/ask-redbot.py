"""Asks REDbot about one resource: ask-redbot.py URL [NAME: VALUE…]. Prints one JSON object: its status and the notes."""
import json
import sys
from configparser import ConfigParser

import thor
from redbot.resource import HttpResource

settings = ConfigParser()
settings.read_dict({"redbot": {"enable_local_access": "True"}})
resource = HttpResource(settings["redbot"], descend=False)
resource.set_request(sys.argv[1], headers=[tuple(part.strip() for part in field.split(":", 1)) for field in sys.argv[2:]])


@thor.events.on(resource)
def check_done():
    thor.stop()


resource.check()
thor.run()
answer = resource.response
print(json.dumps({
    "status": str(answer.status_code), "error": str(resource.fetch_error or ""),
    "notes": [{"level": note.level.name.lower(), "id": type(note).__name__, "summary": " ".join([str(note.summary), *(str(part.summary) for part in note.subnotes)])} for note in answer.notes],
    "checks": [{"name": str(check.check_name), "error": str(check.fetch_error or "")} for check in resource.subreqs.values()],
}))

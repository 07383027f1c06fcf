-- What wrk sends, and a check of every answer's status and body; prints one JSON object at the end.
--
-- POST=n      an echo of n bytes: exactly those must come back     POST=n SINK=1   their number must come back
-- EXPECT=n    the answer to a GET has n bytes                      CLOSE=1         a connection per request
-- SLACK=n     … or so many less or more: compressed, and changed    ACCEPT=codings  Accept-Encoding
local post, expect = tonumber(os.getenv("POST") or ""), tonumber(os.getenv("EXPECT") or "")
local slack = tonumber(os.getenv("SLACK") or "0")
local answer

if post then
   local letters = {}
   for n = 0, 999 do letters[n + 1] = string.char(97 + (n * 7 + math.floor(n / 97)) % 26) end
   wrk.method = "POST"
   wrk.body = string.sub(string.rep(table.concat(letters), math.ceil(post / 1000)), 1, post)
   answer = os.getenv("SINK") and tostring(post) or wrk.body
end
if os.getenv("CLOSE") then wrk.headers["Connection"] = "close" end
if os.getenv("ACCEPT") then wrk.headers["Accept-Encoding"] = os.getenv("ACCEPT") end

wrong_status, wrong_body = 0, 0
function response(status, _, body)
   if status ~= 200 then
      wrong_status = wrong_status + 1
   elseif (answer and body ~= answer) or (expect and math.abs(#body - expect) > slack) then
      wrong_body = wrong_body + 1
   end
end

local threads = {}
function setup(thread) table.insert(threads, thread) end

function done(summary, latency)
   local status, body, e = 0, 0, summary.errors
   for _, thread in ipairs(threads) do
      status, body = status + thread:get("wrong_status"), body + thread:get("wrong_body")
   end
   io.write(string.format(
      'JSON{"requests":%d,"bytes":%d,"seconds":%.6f,"p50":%.3f,"p90":%.3f,"p99":%.3f,"p999":%.3f,"max":%.3f,' ..
      '"failed":{"connect":%d,"reset":%d,"write":%d,"timeout":%d,"status":%d,"body":%d}}\n',
      summary.requests, summary.bytes, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(90) / 1e3,
      latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3, latency.max / 1e3,
      e.connect, e.read, e.write, e.timeout, status, body))
end

#!lua
-- An append by a run's owner: journal.Ledger.Append, number for number.
-- KEYS: meta, stream. ARGV: head, run, owner with its length or "", channel, the
-- lengths of the stored records, then the entries. What is said of one's own
-- records is only where they begin: the rest follows from the entries.
local call, pack, unpack, sub = redis.call, struct.pack, struct.unpack, string.sub
local epoch, fence, w, tag, hi, lo, shift, publish, schema = unpack('>c8c8I6c8I4I4I6Bc2', ARGV[1])
local run, owner, n = ARGV[2], ARGV[3], #ARGV - 5
local moving = 'w' .. run
local m = call('HMGET', KEYS[1], 'h', 'c', 'd', 'r' .. run, moving)
local h, c, d, r = m[1], m[2], m[3], m[4]
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + shift
if not h then return 'E' end
if d then return tonumber(d) > now and 'D' or 'E' end
if sub(c, 1, 8) ~= epoch then return 'W' end
if sub(c, 49, 50) ~= schema and unpack('>I2', c, 49) > unpack('>I2', schema) then
  return 'V' .. sub(c, 49, 50)
end
if not r then return 'E' end
if sub(r, 1, 8) ~= fence or sub(r, 22, 21 + #owner) ~= owner then return 'F' end
local has, last, seq = unpack('>I6c8I6', m[5])
if has == w + n and last == tag then return 'A' end
if string.byte(r, 21) == 1 then return 'L' end
if has < w then return 'G' .. pack('>I6', has) end
if has > w then return 'F' end

-- The tag of a record is that of the one before it, rotated left by one bit,
-- xor the write's tag plus the record's number, all in two halves: a Lua
-- number has 53 bits.
local bxor, format, top = bit.bxor, string.format, 4294967296
local pos, log, at, ph, pl, sum = unpack('>I6I6I6I4I4I6', h)
if now > at then at = now end
local answer = pack('>cI6I6I6I6I4I4', 'O', pos + 1, at, log, seq, ph, pl)
local out = { '\0' .. sub(c, 1, 24) .. pack('>I6I4', pos + 1, n) .. ARGV[5] }
for i = 1, n do
  local e = ARGV[5 + i]
  local flags, count = unpack('>BI4', e)
  local rlog, rseq = 0, 0
  if flags % 2 == 1 then
    log = log + 1
    rlog = log
  end
  if count > 0 then
    if flags % 4 >= 2 then seq = 0 end
    rseq = seq + 1
    seq = seq + count
  end
  local th, tl = ph * 2, pl * 2
  if tl >= top then tl, th = tl - top, th + 1 end
  if th >= top then th, tl = th - top, tl + 1 end
  local wl, wh = lo + i - 1, hi
  if wl >= top then wl, wh = wl - top, wh + 1 end
  th, tl = bxor(th, wh) % top, bxor(tl, wl) % top
  pos = pos + 1
  sum = sum + 46 + #e
  local numbers = pack('>I6I6I6I6I6I4I4I4I4', at, has + i - 1, rlog, rseq, sum, th, tl, ph, pl)
  call('XADD', KEYS[2], format('%.0f-0', pos), numbers, e)
  out[2 * i], out[2 * i + 1] = numbers, e
  ph, pl = th, tl
end
call('HSET', KEYS[1], 'h', pack('>I6I6I6I4I4I6', pos, log, at, ph, pl, sum), moving, pack('>I6c8I6', has + n, tag, seq))
if publish % 4 >= 2 then out = { '\1', sub(c, 1, 24), pack('>I6I4', 0, 0) } end
call(publish % 2 == 1 and 'SPUBLISH' or 'PUBLISH', ARGV[4], table.concat(out))
return answer

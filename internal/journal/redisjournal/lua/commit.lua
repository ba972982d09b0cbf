#!lua
-- A decision: journal.Ledger.Commit, number for number.
-- KEYS: meta, stream, commands, nodes, due, idle, segments by id, segments of
-- the thread. ARGV: head, command, result, name, channel, links, lengths of the
-- stored records, then runs, guards, changes, entries, nodes (id and value),
-- segments.
local spill, call, pack, unpack, sub = unpack, redis.call, struct.pack, struct.unpack, string.sub
local epoch, rev, newEpoch, tag, hi, lo, shift, idle, publish, schema, nruns, nguards, nchanges, nentries, nnodes, nsegs =
  unpack('>c8c16c8c8I4I4I6I6Bc2I4I4I4I4I4I4', ARGV[1])
local command, result, name, channel, links = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + shift
local top = 4294967296

-- The thread, and the runs that the commit speaks of.
local m = call('HMGET', KEYS[1], 'h', 'c', 'd')
local h, c, d = m[1], m[2], m[3]
local exists = h and not d
local ids, runs = {}, {}
for i = 1, nruns do ids[i] = ARGV[7 + i] end
for from = 1, nruns, 200 do
  local fields = {}
  for i = from, math.min(from + 199, nruns) do
    fields[#fields + 1] = 'r' .. ids[i]
    fields[#fields + 1] = 'w' .. ids[i]
  end
  local got = call('HMGET', KEYS[1], spill(fields))
  for k = 1, #got, 2 do
    local r, w = got[k], got[k + 1]
    local run = { live = false, fence = 0, untl = 0, due = 0, sealed = 0, owner = '', agent = '', w = 0, tag = '\0\0\0\0\0\0\0\0', seq = 0 }
    if r and exists then
      local size
      run.live = true
      run.fence, run.untl, run.due, run.sealed, size = unpack('>I8I6I6BI2', r)
      run.owner, run.agent = sub(r, 24, 23 + size), sub(r, 24 + size)
      run.w, run.tag, run.seq = unpack('>I6c8I6', w)
    end
    runs[#runs + 1] = run
  end
end

local at = 7 + nruns
local guards, changes = {}, {}
for i = 1, nguards do
  local run, fence, w, own = unpack('>I4I8I6B', ARGV[at + i])
  guards[i] = { run = runs[run], fence = fence, w = w, own = own == 1 }
end
at = at + nguards
for i = 1, nchanges do
  local run, bits, due, size = unpack('>I4BI6I2', ARGV[at + i])
  changes[i] = {
    at = run, run = runs[run], ends = bits % 2 == 1, new = bits % 4 >= 2, counts = bits % 8 >= 4, takes = bits % 16 >= 8,
    sealed = bits % 32 >= 16 and 1 or 0, due = due, owner = sub(ARGV[at + i], 14, 13 + size), agent = sub(ARGV[at + i], 14 + size),
  }
end
at = at + nchanges

-- A command that was done before is that first of all.
local known = call('HMGET', KEYS[3], command, 'n')
if known[1] and unpack('>I6', known[1]) + 60000 >= now then
  local out = { 'B', c and sub(c, 1, 24) or string.rep('\0', 24) }
  for i = 1, nchanges do
    local ch = changes[i]
    out[i + 2] = pack('>I8', ch.takes and ch.run.live and ch.run.owner == ch.owner and ch.run.fence or 0)
  end
  out[#out + 1] = sub(known[1], 7)
  return table.concat(out)
end

local zero = string.rep('\0', 8)
local fresh = epoch == zero
if exists and sub(c, 49, 50) ~= schema and unpack('>I2', c, 49) > unpack('>I2', schema) then
  return 'V' .. sub(c, 49, 50)
end
if d and tonumber(d) > now and (not fresh or newEpoch == sub(c, 1, 8)) then return 'D' end
if not exists and not fresh then return 'W' end
local opens = not exists
if opens then
  if nguards > 0 then return 'C' end
  for i = 1, nchanges do
    if not changes[i].new then return 'C' end
  end
else
  if fresh then return 'C' end
  if sub(c, 1, 8) ~= epoch then return 'W' end
  if sub(c, 9, 24) ~= rev then return 'C' end
  for i = 1, nguards do
    local g = guards[i]
    local r = g.run
    if not r.live or r.fence ~= g.fence or r.w ~= g.w or (g.own and r.sealed == 1) then return 'C' end
  end
  for i = 1, nchanges do
    if changes[i].run.live == changes[i].new then return 'C' end
  end
end

-- Nothing above has written; nothing below refuses.
local pos, log, last, ph, pl, sum = 0, 0, 0, 0, 0, 0
local revn, floor, floorTag, floorSum, pages, live = 0, 0, zero, 0, 0, 0
if h then
  pos, log, last, ph, pl, sum = unpack('>I6I6I6I4I4I6', h)
  epoch, revn = unpack('>c8I8', c)
  floor, floorTag, floorSum, pages = unpack('>I6c8I6I4', c, 25)
  live = unpack('>I4', c, 51)
end
local gone, set = {}, {}
if opens then
  if pos > 0 then pos, log = pos + 1048576, log + 1048576 end
  epoch, floor, floorTag, floorSum, pages, live, ph, pl = newEpoch, pos, zero, sum, 0, 0, 0, 0
  set = { 'o', pack('>I6I6', log, last) }
  if d then
    call('PERSIST', KEYS[1])
    gone[1] = 'd'
  end
end

local touched = {}
for i = 1, nchanges do
  local ch = changes[i]
  local r = ch.run
  touched[ch.at] = true
  if ch.ends then
    r.ends = true
  else
    if not r.live then
      r.live = true
      live = live + 1
    end
    if ch.takes then
      r.fence, r.owner, r.w, r.tag, r.untl = r.fence + 1, ch.owner, 0, zero, 0
      if ch.owner ~= '' then r.untl = now + 10000 end
    end
    if ch.counts then r.w = r.w + 1 end
    if ch.agent ~= '' then r.agent = ch.agent end
    r.sealed, r.due = ch.sealed, ch.due
  end
end

if now > last then last = now end
local bxor, format = bit.bxor, string.format
local first = pos + 1
local ack, out = {}, {}
for i = 1, nentries do
  local e = ARGV[at + i]
  local flags, count = unpack('>BI4', e)
  local rlog, rseq, rw = 0, 0, 0
  if flags % 2 == 1 then
    log = log + 1
    rlog = log
  end
  if flags >= 4 then rw = i - 1 end
  if count > 0 then
    local r = runs[unpack('>I4', links, 4 * i - 3)]
    local seq = flags % 4 >= 2 and 0 or r.seq
    if not r.live then seq = 0 end
    rseq = seq + 1
    r.seq = seq + count
    r.counted = true
  end
  local th, tl = ph * 2, pl * 2
  if tl >= top then tl, th = tl - top, th + 1 end
  if th >= top then th, tl = th - top, tl + 1 end
  local wl, wh = lo + i - 1, hi
  if wl >= top then wl, wh = wl - top, wh + 1 end
  th, tl = bxor(th, wh) % top, bxor(tl, wl) % top
  pos = pos + 1
  sum = sum + 46 + #e
  local numbers = pack('>I6I6I6I6I6I4I4I4I4', last, rw, rlog, rseq, sum, th, tl, ph, pl)
  call('XADD', KEYS[2], format('%.0f-0', pos), numbers, e)
  ack[i] = numbers
  if publish < 2 then out[2 * i - 1], out[2 * i] = numbers, e end
  ph, pl = th, tl
end
at = at + nentries

-- What has changed of the runs, and when somebody must look at them.
local due, undue = {}, {}
for i = 1, nruns do
  local r = runs[i]
  if r.live and (touched[i] or r.counted) then
    if r.ends then
      live = live - 1
      gone[#gone + 1] = 'r' .. ids[i]
      gone[#gone + 1] = 'w' .. ids[i]
      undue[#undue + 1] = name .. ' ' .. ids[i]
    else
      set[#set + 1] = 'w' .. ids[i]
      set[#set + 1] = pack('>I6c8I6', r.w, r.tag, r.seq)
      if touched[i] then
        set[#set + 1] = 'r' .. ids[i]
        set[#set + 1] = pack('>I8I6I6BI2', r.fence, r.untl, r.due, r.sealed, #r.owner) .. r.owner .. r.agent
        local when = r.due
        if r.owner ~= '' and (when == 0 or r.untl < when) then when = r.untl end
        if r.owner ~= '' or when > 0 then
          due[#due + 1] = format('%.0f', when)
          due[#due + 1] = name .. ' ' .. ids[i]
        else
          undue[#undue + 1] = name .. ' ' .. ids[i]
        end
      end
    end
  end
end
set[#set + 1] = 'h'
set[#set + 1] = pack('>I6I6I6I4I4I6', pos, log, last, ph, pl, sum)
set[#set + 1] = 'c'
set[#set + 1] = epoch .. pack('>I8', revn + 1) .. tag .. pack('>I6c8I6I4c2I4', floor, floorTag, floorSum, pages, schema, live)

local function each(verb, key, list)
  for i = 1, #list, 1000 do
    call(verb, key, spill(list, i, math.min(i + 999, #list)))
  end
end
each('HSET', KEYS[1], set)
each('HDEL', KEYS[1], gone)
each('ZADD', KEYS[5], due)
each('ZREM', KEYS[5], undue)
if live == 0 and pos > floor then
  call('ZADD', KEYS[6], format('%.0f', last + idle), name)
elseif live > 0 then
  call('ZREM', KEYS[6], name)
end
local nodes, segs, own = {}, {}, {}
for i = 1, 2 * nnodes do nodes[i] = ARGV[at + i] end
at = at + 2 * nnodes
for i = 1, nsegs do
  segs[2 * i - 1], segs[2 * i] = ARGV[at + i], name
  own[i] = ARGV[at + i]
end
each('HSET', KEYS[4], nodes)
if nsegs > 0 then
  each('HSET', KEYS[7], segs)
  each('RPUSH', KEYS[8], own)
  local over = call('LLEN', KEYS[8]) - 4096
  if over > 0 then each('HDEL', KEYS[7], call('LPOP', KEYS[8], over)) end
end

-- The newest 256 commands, in a ring; all go when none has come for a minute.
local turn = tonumber(known[2] or '0')
local place = 's' .. turn % 256
local old = turn >= 256 and call('HGET', KEYS[3], place)
if old then call('HDEL', KEYS[3], old) end
call('HSET', KEYS[3], command, pack('>I6', now) .. result, place, command, 'n', format('%.0f', turn + 1))
call('PEXPIRE', KEYS[3], 90000)

local head = epoch .. pack('>I8', revn + 1) .. tag
local note
if publish < 2 then
  note = '\0' .. head .. pack('>I6I4', first, nentries) .. ARGV[7] .. table.concat(out)
else
  note = '\1' .. head .. pack('>I6I4', 0, 0)
end
call(publish % 2 == 1 and 'SPUBLISH' or 'PUBLISH', channel, note)
local fences = {}
for i = 1, nchanges do
  local ch = changes[i]
  fences[i] = pack('>I8', not ch.ends and ch.takes and ch.run.fence or 0)
end
return 'O' .. head .. table.concat(fences) .. pack('>I6', first) .. table.concat(ack)

local marker, marker_ms = prefix .. 'call:' .. take(), take()
local known = redis.call('GET', marker)
if not known then
    redis.call('SET', marker, '0', 'PX', marker_ms)
end
return known == '1' and 1 or 0

#!lua
-- Nothing at all, where a script may write: a server that takes no writes now
-- refuses it. KEYS: any of the slot.
return 'O'

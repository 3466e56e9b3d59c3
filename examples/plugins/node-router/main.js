#!/usr/bin/env node
// Node-router is a Crosstown plugin in JavaScript: it sends heavy parcels elsewhere.
import { serve } from './crosstown.js';

const heaviest = 30; // largest weight of a parcel in kilograms

serve({
  name: 'node-router',
  version: '1.0.0',
  onSend(message) {
    const { weight } = message.properties;
    if (typeof weight !== 'number') {
      return { action: 'DEAD_LETTER', reason: 'NoWeight', description: 'The property weight, a number, says how a parcel goes.' };
    }
    if (weight <= heaviest) return {}; // accept it unchanged
    return { routes: ['freight'], set: { 'handled-by': 'node-router', pallets: Math.ceil(weight / 500) } };
  },
});
